#include "eval/prose_grammar.h"

namespace ei::eval {
namespace {

constexpr ProseRule kScenes[] = {
    {"title",
     "Of {P}, and how {A} {deed}.|Of {season} at {P}, and of {matter}.|How {A} came to {P}, and what {folk} said of "
     "it.|"
     "Of {thing} that was found near {spot}.|What befell {B} upon {road}.|Of {kin}, and of {beast}, and of {matter}."},
    {"scene.weather",
     "{when} {weather}, and {weather}.|In {season} {weather}, so that {folk} kept to {room}.|"
     "{weather}; {A} watched it from {room} and {thought}.|No one in {P} could remember the like, for "
     "{weather}, and it was cold {span}.|"
     "{bird} had gone from {spot}, and {weather}.|{when} {light} fell upon {spot}, and {plant} stood as still as "
     "glass.|"
     "{A} said that {weather} {years_ago}, and that {folk} had prayed {span}.|"
     "Then {weather}, and {sound} could be heard as far as {spot}.|"
     "All along {road} there was the smell of {plant} and of wet {goods}.|"
     "It was a morning for {quality} people: {weather}, {bird} called from {spot}, and nobody was {mood}."},
    {"season_word", "spring|summer|autumn|winter|frost|thaw|drought|harvest|night|Whitsuntide"},
    {"scene.journey",
     "{A} set out for {Q} {when}, taking {thing} and some {food}.|They went by {road} {manner}, and {weather}.|"
     "At {spot} {A} met {folk}, who were bringing {goods} from {town} to {town}.|"
     "The inn at {town} had no bed to spare, so {A} slept in {room} and {thought}.|"
     "{when} they came in sight of {Q}, where {bird} wheeled over {spot}.|"
     "{beast} would go no farther than {spot}, though {A} pulled and {B} pushed {span}.|"
     "A stranger with {look} walked beside {A} for a mile and talked of {matter}.|"
     "The carrier from {town} told them that {weather}, and that the bridge near {spot} was not safe.|"
     "{B} had stayed behind at {P} and {deed}, as {he_or} had promised.|"
     "It was dark on {road}, and {sound} made {A} think of {kin}.|"
     "{A} carried {thing} under one arm and {thing} under the other, and arrived {mood}.|"
     "Between {town} and {town} there is nothing but {plant} and {bird}, and a single house by {spot}."},
    {"he_or", "any friend would and as everybody|usual, and as the letter|was right, and as both of them"},
    {"scene.trade",
     "{A} was known from {P} to {town} for {his} {goods}, and {folk} came {manner} to buy.|"
     "{when} the shop was full of {folk}, who wanted {goods} and gave {food} for it.|"
     "The price of {goods} had risen since {season}, and {B} blamed {folk} in {town}.|"
     "{A} {deed} {when}, then {deed}.|Nobody worked in {room} but {A}, who {deed} and sang while {sound} went on "
     "outside.|"
     "A dealer with {look} offered {thing} for the whole stock of {goods}, {closing}.|"
     "There was {a:quality} apprentice who spoiled the {goods} and hid in {room} {span}.|"
     "{B} lent {A} {thing}, and got {food} in return.|"
     "In {season} they made {goods}, and in {season} they carried it by {road} to {Q}.|"
     "The scales in {room} were false, said {folk}, but {A} {deed} {manner} and paid no heed."},
    {"scene.letter",
     "{when} a letter came from {Q}, sealed with red wax and smelling of {goods}.|"
     "{A} read it twice in {room}, {manner}, and then {deed}.|"
     "It said that {kin} was {mood}, that {weather}, and that the {goods} had been sold.|"
     "The hand was the hand of {kin}, who had left {P} {years_ago}.|"
     "In the letter there was not a word of {matter}, {closing}.|"
     "{B} took the paper to {light} and saw that the last page was missing.|"
     "{A} answered it {when}: the {goods} were safe, {B} was {mood}, and {opinion}.|"
     "The messenger, who had {look}, waited at {spot} for his money and ate {food}.|"
     "Somebody had drawn {thing} in the margin, and beneath it the name of {town}.|"
     "\"Burn this,\" the letter ended, \"and say to {folk} that {opinion}.\"|"
     "Three letters lay in {room} {span} before {A} had the courage to open them."},
    {"scene.dispute",
     "The quarrel between {A} and {B} was about {matter}, and it had begun {years_ago}.|"
     "{folk} took the side of {A}; {folk} held with {B}, {closing}.|"
     "{when} both of them appeared before the justice at {town}, each {manner}.|"
     "{A} swore that {weather} on the day in question, and that {B} {deed}.|"
     "The justice, {a:quality} man with {look}, heard them {span} and ate {food}.|"
     "It was proved that {thing} had never belonged to {B}, {closing}.|"
     "Hard words were spoken near {spot}, and {sound} covered the rest.|"
     "In the end the lawyers got the {goods}, and {A} and {B} got {food} between them.|"
     "{kin} of {B} offered to settle {matter} with {thing}, but {A} was too {mood} to listen.|"
     "{folk} still say in {P} that {opinion}.|"
     "They met by chance at {spot} {when}, and each of them looked at {bird} rather than speak."},
    {"scene.home",
     "{A} lived near {spot} with {beast} and {kin}, and {deed} every {season_word}.|"
     "{when} the table was laid in {room} with {food} and {food}.|"
     "Over the mantel hung {thing}, which {kin} had brought from {town} {years_ago}.|"
     "{A} had {look}, and {B} had {look}; they were the best of friends.|"
     "The children {manner} made a ship of {thing} and sailed it on the pond by {spot}.|"
     "{B} {deed} {when}, and afterwards {thought_b}.|"
     "There was always {sound} in that house, and a smell of {goods} and {plant}.|"
     "{beast} slept before the hearth while {A} {deed}.|"
     "On the shelf in {room} stood {thing}, {thing}, and a jar of {goods}.|"
     "{A} {thought}, and {deed} {manner}.|"
     "They ate {food} in {room} and spoke {manner} of {kin} and of {matter}."},
    {"thought_b",
     "was {mood} {span}|went out to look at {light}|would hear nothing more of {matter}|slept like a child|"
     "talked only of {town}|put on a clean collar|sang to {beast}|complained of the {goods}"},
    {"scene.market",
     "On market day {folk} filled {P} from {spot} to {spot}.|"
     "{A} sold {goods}, {goods} and {goods}, and came home with {thing}.|"
     "A juggler with {look} stood by {spot} and swallowed fire for {folk}.|"
     "{beast} broke loose among the {goods}, {closing}.|"
     "You could buy {food} for a penny, and hear from {folk} that {opinion}.|"
     "{B} bargained {manner} over {thing}, while {A} looked after {beast}.|"
     "The women of {town} had brought {goods}; the men of {town} had brought nothing but {opinion_noun}.|"
     "{when} a bell was rung at {spot}, and the selling of {goods} was over.|"
     "Somebody stole {thing} from the stall of {A} and left {thing} in its place.|"
     "It was the custom at {P} to hold the fair in {season}, when {weather}."},
    {"opinion_noun", "good advice|old stories|empty pockets|a bad fiddle|complaints|their appetites|a lame excuse"},
    {"scene.sickness",
     "In {season} {A} fell ill, and lay {span} in a bed beside {room}.|"
     "{B} sat there {when} and read aloud, or listened to {sound}.|"
     "The doctor, {a:quality} man from {town}, ordered {food} and forbade {food}.|"
     "{folk} left {goods} and {thing} at the door, {manner}.|"
     "In the fever {A} {thought}, and talked of {spot} and {bird}.|"
     "{when} the danger was past, and {weather}.|"
     "\"{speech},\" the sick one repeated, until {B} was {mood}.|"
     "They hung {plant} above the bed, since {folk} held that {opinion}.|"
     "Slowly strength came back: first {A} asked for {food}, then for {thing}, and at last for news of {town}."},
    {"scene.memory",
     "{years_ago}, {A} had been {a:man_or_woman} of {town} and knew nothing of {matter}.|"
     "There were those who remembered how {folk} came over {road} {when} with {beast} and {thing}.|"
     "The chronicle of {P} says that {weather} {years_ago}, and that {folk} {folk_deed}.|"
     "{A} could tell how {kin} {deed} {years_ago}, {closing}.|"
     "Of the old house by {spot} only {plant} and {a:quality} legend remained.|"
     "{B} was born at {town} in {season}, {years_ago}, while {weather}.|"
     "It is written that {folk} of {Q} were {quality}, and that those of {P} were {quality} and {mood}.|"
     "No stone marks the place near {spot} where {kin} of {A} {deed}.|"
     "They had been children together, and had once found {thing} in {room}."},
    {"man_or_woman", "child|orphan|guest|scholar|stranger|idle youth|servant|pupil"},
    {"folk_deed",
     "built a wall about {spot}|carried the {goods} to the hills|rang the bells {span}|made peace over {food}|"
     "left {room} open for travellers|chose a new reeve|burned the toll gate|danced until morning"},
    {"scene.feast",
     "{when} there was a wedding at {P}, and {folk} danced by {spot}.|"
     "They roasted an ox in {season}, and there was {food} and {food} for everyone.|"
     "{A} played the fiddle {manner}, and {B} danced with {folk}.|"
     "The bride wore {plant} in her hair and {thing} at her belt, as was usual in {town}.|"
     "{folk} drank to {kin} of {A}, to the {goods}, and to the end of {matter}.|"
     "Late that night {A} {deed}, {closing}.|"
     "Only {B} was {mood}, and stood by {spot}, listening to {sound}.|"
     "An old man with {look} told them how {folk} {folk_deed} {years_ago}.|"
     "{light} shone on the tables, on the {goods}, and on {beast}, which had got in by {room}."},
    {"scene.search",
     "{when} {thing} was missing from {room}, and nobody knew who had been there.|"
     "{A} searched {room}, and {B} went {manner} as far as {spot}.|"
     "{folk} had seen a light near {spot}, {closing}.|"
     "There were marks of boots on {road}, and beside them the track of {beast}.|"
     "\"{question}?\" {A} asked of everyone at {spot}, and nobody could answer.|"
     "A reward of {goods} was promised at {spot}; {folk} came from {town} to look.|"
     "It was {B} who found it at last under {plant} beside {spot}, wrapped in an old sack.|"
     "{A}, {mood} and wet through, {thought}.|"
     "Nobody was accused, for {opinion}; but {A} {deed} from that day."},
    {"scene.talk",
     "\"{speech},\" {said}.|\"{question}?\" {asked}.|\"{speech}. {speech},\" {said}.|"
     "\"{speech},\" {said}; \"{speech_low}.\"|\"{question}?\" {asked}, and {sound} came from {room}.|"
     "\"No,\" {said}, \"{speech_low}.\"|\"Well,\" {said}, \"{speech_low}.\"|\"{speech}!\" {said}.|"
     "\"{question}? {speech},\" {asked}.|{A} {deed_short}, and said {manner}, \"{speech}.\""},
    {"speech_low",
     "the {goods} must be sold before {season}|we were {mood}, and that is the truth of it|"
     "nobody goes by {road} in {season}|my mother kept {thing} for just such a day|"
     "you will find {kin} of yours at {town}|in {town} they think me {quality}|the rest you must ask of {folk}|"
     "{thing} is not worth a friendship|it was {years_ago}, and I was {mood}|as for {matter}, let it rest|"
     "there is {food} on the table in {room}|one cannot be {quality} and {quality} at once"},
    {"deed_short",
     "put down {thing}|looked out toward {spot}|stirred the fire|took up {thing}|listened to {sound}|sighed|"
     "walked the length of {room}|cut some bread|turned to {B}|laid a hand on {beast}"},
    {"scene.thought",
     "{A} {thought}; yet {opinion}.|It seemed to {A}, {when}, that {opinion}, and that {B} was {mood} for no reason.|"
     "Perhaps {opinion}, {A} reflected, and perhaps {kin} had known it.|"
     "{B} was {quality} where {A} was {quality}, and in {P} people smiled at both.|"
     "What is {a:quality} life, after all, but {food}, {sound}, and {light} upon {spot}?|"
     "{A} walked {manner} to {spot} and {thought}.|"
     "There is a kind of sorrow that comes with {season}, with {plant} and {sound}, and {A} knew it well.|"
     "{when} {A} {thought}, {closing}.|"
     "Nothing in {P} had changed: {bird} still came to {spot}, {folk} still talked of {matter}."},
};

}  // namespace

std::span<const ProseRule> prose_scenes() { return kScenes; }

}  // namespace ei::eval
