#include "eval/prose_grammar.h"

namespace ei::eval {
namespace {

// The words are those of old novels, for readers (and small models) brought up on them. No digits anywhere, and no
// names that the tasks (eval/words.h) could draw for their own people and places.
constexpr ProseRule kLexicon[] = {
    {"man_name",
     "Thomas|William|Edward|Henry|Robert|Walter|Gilbert|Matthew|Stephen|Andrew|Ralph|Philip|Roger|Daniel|Samuel|"
     "Joseph|Benjamin|Abel|Jacob|Luke|Adam|Giles|Francis|Nathan|Silas|Amos|Ambrose|Barnaby|Caleb|Ephraim"},
    {"woman_name",
     "Margaret|Alice|Catherine|Eleanor|Mary|Agnes|Martha|Susan|Judith|Hester|Dorothy|Ruth|Rachel|Beatrice|Emily|"
     "Charlotte|Lucy|Grace|Prudence|Constance|Phoebe|Miriam|Cecily|Barbara|Bridget|Harriet|Isabel|Joan|Letitia|Sarah"},
    {"surname",
     "Reed|Cooper|Marsh|Webb|Lane|Shepherd|Fielding|Thorne|Wood|Hollis|Carter|Blake|Ashby|Moor|Penrose|Drake|Firth|"
     "Grey|Heath|Lovell|Merrick|Nash|Oakes|Pruett|Rudd|Sparrow|Tanner|Vane|Whitlock|Young"},
    {"man_trade",
     "miller|blacksmith|schoolmaster|ferryman|carpenter|shepherd|doctor|clerk|innkeeper|baker|mason|fisherman|"
     "gardener|carrier|weaver|cooper|saddler|bookbinder|parson|clockmaker|potter|gamekeeper|sailmaker|thatcher"},
    {"woman_trade",
     "widow|dressmaker|midwife|schoolmistress|housekeeper|dairymaid|weaver|lacemaker|cook|gardener|innkeeper|baker|"
     "nurse|shopkeeper|spinner|beekeeper|governess|washerwoman|candlemaker|fishwife|glover|seamstress|potter|cousin"},
    {"town",
     "Ashcombe|Whitcliff|Underhill|Stonebridge|Eastmarsh|Littlebrook|Copsefield|Greywater|Saltmarsh|Highmoor|"
     "Applecross|Birchwood|Longmeadow|Coldwell|Foxhollow|Sandhaven|Thornhill|Willowbank|Blackpool Cross|Redcliffe|"
     "Maplewood|Crowhurst|Oxbridge|Wetherby|Millbrook|Netherfield|Marlow|Kingsdown|Lambourne|Deepdene"},
    {"goods",
     "wool|butter|candles|honey|salt fish|apples|oats|barley|rope|leather|nails|lamp oil|brown sugar|linen|timber|"
     "tea|cheese|flour|seed corn|glass|pewter plates|onions|charcoal|cider|hay|paper and ink|ribbon|soap|coal|walnuts"},
    {"thing",
     "a brass lantern|an old silver watch|a bundle of letters|a broken oar|a carved box|a blue shawl|a map of the "
     "coast|"
     "a bag of seed|a rusty lock|a prayer book|a painted jug|a coil of rope|a wooden horse|a pair of boots|a small "
     "bell|"
     "a cracked mirror|a basket of eggs|a fiddle without strings|a roll of cloth|a copper kettle|a walking stick|"
     "a hunting knife|a feather bed|a china cup|a loaf of dark bread|a child's shoe|an iron ring|a jar of ointment|"
     "a folded newspaper|a leather purse"},
    {"room",
     "the kitchen|the back parlour|the hayloft|the hall|the little chapel|the stable|the counting house|the garret|"
     "the library|the workshop|the cellar|the schoolroom|the barn|the dairy|the inn|the shop|the orchard|the courtyard|"
     "the boathouse|the bakehouse"},
    {"spot",
     "the old bridge|the churchyard wall|the market cross|the ford|the edge of the wood|the turn of the lane|the well|"
     "the harbour steps|the mill pond|the great oak|the ruined chapel|the toll gate|the top of the hill|the quarry|"
     "the lower meadow|the stone stile|the riverbank|the village green|the lighthouse|the crossroads|the sheepfold|"
     "the ferry landing|the chestnut avenue|the forge"},
    {"road",
     "the coast road|the forest path|the long lane|the drovers' track|the river road|the hill road|the muddy turnpike|"
     "the towing path|the road across the moor|the sunken lane|the causeway|the narrow path by the cliffs|the north "
     "road|"
     "the way through the marshes|the old pilgrims' road"},
    {"beast",
     "the grey mare|the old dog|the red cow|a black cat|the brown pony|a flock of geese|the carthorse|a pair of oxen|"
     "the spaniel|a thin goat|the tame raven|a wandering sheep|the donkey|two white hens|the lame horse|a young fox"},
    {"manner",
     "slowly|with great care|in haste|without a word|with a heavy heart|gladly|in good spirits|as quietly as a thief|"
     "with some pride|against all advice|as if in a dream|with trembling hands|by the light of a candle|half asleep|"
     "in perfect silence|with a laugh|with more courage than sense|patiently|under a grey sky|like one who is late|"
     "with tears in the eyes|not very willingly|by long habit|with an air of mystery"},
    {"mood",
     "tired|merry|anxious|proud|troubled|hopeful|angry|ashamed|content|restless|lonely|grateful|curious|bewildered|"
     "weary to the bone|light of heart|out of temper|sick at heart|strangely calm|full of plans|jealous|sorry"},
    {"quality",
     "honest|stubborn|gentle|proud|careful|foolish|generous|silent|clever|idle|brave|cautious|cheerful|bitter|patient|"
     "hasty|learned|plain-spoken|devout|sly|tender|gloomy|steady|vain"},
    {"kin",
     "a brother|a sister|an uncle|a married daughter|an old aunt|a cousin|a godson|a former master|a friend of "
     "childhood|"
     "a younger son|a grandfather|a nephew at sea|a distant relation|a stepmother|a half-forgotten schoolfellow"},
    {"folk",
     "the fishermen|the old women|the farmers|the children|the servants|the travellers|the neighbours|the sailors|"
     "the tinkers|the soldiers on leave|the maids|the shepherds|the elders|the apprentices|the boatmen|the ringers|"
     "the carters|the reapers|the strangers at the inn|the beggars"},
    {"season",
     "spring|summer|autumn|winter|harvest time|lambing time|the long frost|the dry months|Lent|hay time|"
     "the season of fogs|the week of the fair"},
    {"when",
     "before sunrise|at noon|toward evening|on the Sunday following|that same night|a little after breakfast|"
     "at the end of the week|in the middle of the night|on market day|when the lamps were lit|the next morning|"
     "after a long silence|at the first snow|on the eve of the feast|about the time of the harvest|"
     "when the church clock struck|some days later|before the month was out|while the kettle boiled|at low tide|"
     "as soon as the rain had stopped|when supper was over|in the grey of dawn|between two showers|at the turn of the "
     "year|"
     "late in the afternoon|when nobody expected it|on a bright cold day|not long afterwards|by and by"},
    {"span",
     "all day|for a fortnight|the whole winter|for many years|half the night|until the candle failed|for an hour or "
     "two|"
     "from morning to night|three days together|longer than anyone remembered|a good part of the summer|all that week"},
    {"opinion",
     "it was a great pity|no good would come of it|the world was growing old|a promise was a promise|money had spoiled "
     "him|"
     "the whole affair was a misunderstanding|the young were never satisfied|there was more in it than met the eye|"
     "pride would have its fall|the law was a slow horse|kindness cost nothing|the sea always took its share|"
     "it had been better in their fathers' time|silence was the wiser course|somebody ought to write to the bishop|"
     "the truth would be known before long|a hard winter makes good neighbours|nobody was much to blame"},
    {"matter",
     "the right of way across the meadow|a boundary stone|the price of wool|an unpaid debt|a strayed heifer|the church "
     "roof|"
     "the fishing in the upper pool|a broken fence|the choosing of a churchwarden|a lost will|the dowry of the eldest "
     "girl|"
     "the repair of the causeway|a borrowed plough|the water of the mill stream|the fees of the school|a felled walnut "
     "tree|"
     "the hour of the evening bell|a cartload of bad hay|the inheritance of a cottage|a quarrel between two boys"},
    {"food",
     "bread and cheese|a dish of mutton|pease soup|cold bacon|an apple pie|roast goose|a bowl of porridge|boiled eggs|"
     "salt herring|a rabbit stew|oatcakes and honey|a plum pudding|new milk|mulled wine|gingerbread|baked potatoes"},
    {"plant",
     "primroses|wild roses|the hawthorn|foxgloves|the lilac|bluebells|the apple blossom|poppies|heather|the "
     "ivy|violets|"
     "brambles|the tall nettles|honeysuckle|daisies|the yellow gorse|lavender|meadowsweet"},
    {"bird",
     "the rooks|swallows|a lark|the gulls|an owl|the cuckoo|wild geese|a heron|the blackbird|starlings|a robin|the "
     "wrens|"
     "the curlews|a pair of doves|the magpies|a kingfisher"},
    {"sound",
     "the creak of a cart|a distant bell|the barking of dogs|somebody singing|the hammer of the smith|a door closing|"
     "the wash of the tide|footsteps on gravel|the crackle of the fire|a horn across the valley|the mill wheel turning|"
     "laughter in the lane|the wind in the chimney|a child crying|hoofs upon the road|rain against the glass"},
    {"light",
     "the low sun|a pale moon|the last of the daylight|a single candle|the red glow of the forge|the lightning|"
     "the lamp in the window|a bar of sunlight|the morning star|the bonfire|the snow-light|the early dawn"},
    {"years_ago",
     "in the old king's time|when the great flood came|before the war|in the year of the comet|long before the railway|"
     "when the abbey still stood|in the days of the old squire|the summer the river dried|before either of them was "
     "born|"
     "when bread was dear|in the winter of the deep snow|the year the harvest failed"},
};

}  // namespace

std::span<const ProseRule> prose_lexicon() { return kLexicon; }

}  // namespace ei::eval
