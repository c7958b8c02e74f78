#include "eval/prose_grammar.h"

namespace ei::eval {
namespace {

// {A} and {B} are the two people of the scene, {he} and {his} the pronouns of {A}; {P} is the place of the chapter and
// {Q} another one; {a:rule} puts the right article before what the rule gives.
constexpr ProseRule kClauses[] = {
    {"deed",
     "mended the gate of {spot_of}|carried a load of {goods} to {town}|sat by the fire in {room}|"
     "wrote a long letter to {kin}|counted the money upon the table|went down to {spot} with a lantern|"
     "bought {thing} from a pedlar|buried {thing} under the doorstep|walked to {town} and back again|"
     "swept the snow from the steps|sold {beast_owned} to a dealer from {town}|gathered {plant} along {road}|"
     "read aloud from the newspaper|locked the door of {room}|helped {folk} to unload the {goods}|"
     "stood a while at {spot}|hung {thing} upon the wall|refused to eat anything but {food}|"
     "looked for {beast} until dark|sent a boy to {town} for {goods}|mended nets beside {spot}|"
     "lit every lamp in the house|dreamed of {town} and the sea|split logs behind {room}|"
     "paid what was owing for the {goods}|climbed up to {spot} to see the ships|laid the table for {folk}|"
     "sharpened the scythes for the morning|learned a new song from {folk}|gave {food} to a beggar"},
    {"spot_of",
     "the churchyard|the lower meadow|the orchard|the sheepfold|the toll house|the paddock|the kitchen garden"},
    {"beast_owned",
     "the grey mare|the red cow|two pigs|a dozen sheep|the brown pony|a young ox|six geese|the lame horse"},
    {"thought",
     "thought of {kin} who had gone to {town}|remembered a summer spent at {town}|could not forget {thing}|"
     "wondered whether {folk} had spoken the truth|felt {mood} and could not say why|"
     "wished that the winter were over|believed that {opinion}|had never been so {mood}|"
     "hoped for news from {town}|feared a bad harvest|knew that {he} had been wrong about {matter}|"
     "began to understand {B} a little better|longed for the sound of the sea|made up {his} mind to say nothing|"
     "looked back upon the day with shame|missed {kin} more than {he} would own"},
    {"look",
     "{a:quality} face|a stoop in the shoulders|eyes the colour of slate|a scar on one cheek|hands like a ploughman's|"
     "a voice that carried across a field|a coat too large by half|hair as white as flax|a limp from an old fall|"
     "a way of laughing at nothing|a hat with a broken brim|a quick and {quality} temper|a ring that nobody could "
     "explain|"
     "the manners of a lord|boots of foreign leather|a habit of humming"},
    {"weather",
     "the rain came down upon {P} {weather_span}|the wind went round to the {wind}|a thick fog lay over {spot}|"
     "the frost held {weather_span}|snow fell upon the roofs of {P}|the sun shone on {spot}|"
     "the clouds gathered above {spot}|the river rose as far as {spot}|there was thunder beyond {town}|"
     "a warm wind came up from {town}|the dew lay heavy on {plant}|the stars were very clear above {P}|"
     "the ice broke with a noise like guns|dust blew along {road}|the mist lifted from {road}|"
     "hail beat down {plant_obj} by {spot}|the air smelt of hay and {plant}|{light} lay upon {spot}|"
     "the first swallows were seen at {town}|the leaves turned yellow about {spot}"},
    {"weather_span", "all day|without a pause|for three nights|from dawn to dusk|the whole week|until the Sunday"},
    {"wind", "north|south-west|east|north-east|west|south"},
    {"plant_obj", "the barley|the young beans|the roses|the apple blossom|the standing corn|the lavender"},
    {"speech",
     "I have not slept since {folk} came back from {town}|You may keep {thing}, for I have no use for it now|"
     "There was a time when {P} had two inns and a fair|My father lost everything over {matter}|"
     "If the {wind} wind holds, we shall be at {town} tomorrow|Nobody told me that you had been {mood}|"
     "I would give a great deal to hear {sound} once more|They say in {town} that {opinion}|"
     "I saw {beast} at {spot}, and nobody with it|We ought to have spoken of {matter} long ago|"
     "You were always the more {quality} of the two|Let us go by {road}, it is shorter|"
     "I shall not set foot in {room} again|Bring {thing} and meet me at {spot}|"
     "It was {kin} of mine who built that house|Tell them at {town} that the {goods} will come late|"
     "There is nothing in {room} but dust and {goods}|A man may be {quality} and still be right|"
     "I left {thing} on the bench by {spot}|She asked after you when the {goods} were sold|"
     "I was never so {mood} in my life|We have {food}, and you are welcome to it|"
     "Do not mention {matter} before {folk}|When I was young I walked from {P} to {town} in a day|"
     "It is not the cold that I mind, it is {sound} at night|I heard it from {folk}, and they never lie|"
     "Whoever took {thing} will bring it back before Christmas|I had rather lose the {goods} than a friend"},
    {"question",
     "Have you been to {town} since {season}|What did {folk} say about {matter}|Do you remember {thing}|"
     "Who has been in {room}|Is it true that you sold {beast_owned}|Where shall we find {goods} in {season}|"
     "Why do you look so {mood}|Did you hear {sound} last night|Shall we take {road} or wait for the carrier|"
     "How long have you known {kin} of mine|Is there any {food} left|Would you call that {quality}|"
     "Must we speak of {matter} again|Can the {goods} not wait until morning"},
    {"said",
     "said {A}|answered {A}|cried {A}|said {A}, smiling|murmured {A}|said {A} at last|returned {A}|{A} replied|"
     "observed {A}|whispered {A}|said {A}, putting down {thing}|said {A}, looking toward {spot}|"
     "exclaimed {A}, who was {mood}|said {A} in {a:quality} voice"},
    {"asked",
     "asked {B}|inquired {B}|said {B}, with a frown|demanded {B}|asked {B}, turning pale|said {B} to the fire|"
     "asked {B} at the door|said {B}, laughing|asked {B}, who had been listening to {sound}|{B} wanted to know"},
    {"closing",
     "and nobody spoke of it again|and that was the end of the matter|though {folk} told it differently|"
     "which surprised {folk}|but the door stayed shut|and so they parted at {spot}|for {opinion}|"
     "and {sound} was all the answer|as people do in {season}|and {B} said nothing|to the great joy of {folk}|"
     "while {bird} cried over {spot}|and was never the same again|without so much as looking at {B}|"
     "in spite of {matter}|and {weather}"},
};

}  // namespace

std::span<const ProseRule> prose_clauses() { return kClauses; }

}  // namespace ei::eval
