/* demo_text.c -- the training text of `tandem demo`: plain facts in short words,
 * which a small model can learn. */
#include "cli/demo.h"

const char *const demo_text[] = {
    "The Earth goes around the Sun once a year. The Moon goes around the Earth "
    "once a month, and always shows it the same face. The Sun is a star, and the "
    "stars at night are suns far away.",
    "Light is the fastest thing there is. It takes eight minutes from the Sun to "
    "the Earth, and a little more than a second from the Moon. From the nearest "
    "other star it takes four years. When we look at the sky we look at the "
    "past.",
    "There are eight planets. Mercury is the smallest and the nearest to the "
    "Sun. Venus is the hottest, because its thick air keeps the heat. The Earth "
    "is the only one we know with oceans of water. Mars is red, because its dust "
    "is full of rust. Jupiter is the largest, and has a storm that is larger "
    "than the Earth. Saturn has rings of ice. Uranus lies on its side. Neptune "
    "is the last, and its winds are the fastest.",
    "The sea covers more than two thirds of the Earth. It is salt, because "
    "rivers carry salt from the stones to the sea, and the Sun takes the water "
    "back but leaves the salt. The Moon pulls at the water, and so the sea rises "
    "and falls two times a day. The deepest place in the sea is deeper than the "
    "highest mountain is high.",
    "Water is a strange thing. It is heavier when it is cold, but ice is lighter "
    "than water, and so ice swims. If ice would sink, the lakes would freeze "
    "from below, and the fish would not live through the winter. Snow is made of "
    "small stars of ice, and each of them has six arms.",
    "The wind is air that moves from where there is more of it to where there is "
    "less. The rain is water that the Sun took from the sea. The rainbow is the "
    "light of the Sun, taken apart by the rain: red on the outside, then orange, "
    "yellow, green, blue, and violet on the inside.",
    "A tree makes its wood from air and water, and the light of the Sun gives it "
    "the strength. Each year it grows a new ring, and who counts the rings knows "
    "the age of the tree. The oldest trees were young when the first cities were "
    "young. In autumn the green goes out of the leaves, and then we see the "
    "yellow that was there all the time.",
    "The bee flies from flower to flower and takes the sweet juice home. When a "
    "bee has found a good field, it dances, and the dance tells the others how "
    "far to fly and where. The ant is small, but it carries more than its own "
    "weight. The spider makes a thread that is stronger than steel of the same "
    "weight.",
    "The whale is no fish. It breathes air, it is warm, and it gives milk to its "
    "young. The blue whale is the largest animal that ever lived, and its heart "
    "is heavier than two men. The bat is no bird. It flies in the dark and sees "
    "with its ears: it cries, and listens to what comes back.",
    "Birds came from the dinosaurs. Some of them fly from one end of the Earth "
    "to the other, and back again in the next year, and find the same nest. The "
    "owl flies without a sound. The swift can sleep while it flies. The penguin "
    "cannot fly in the air, but it flies in the water.",
    "The cat has lived with us since we have grain, because where there is grain "
    "there are mice. The dog has lived with us for longer: it was a wolf once, "
    "and came to the fire. The horse carried us, the ox pulled the plough, the "
    "sheep gave us wool, and the bee gave us honey.",
    "The heart beats about once in a second, a hundred thousand times in a day. "
    "The blood is red because there is iron in it, and the iron carries the air "
    "that we breathe to every part of the body. We have two hundred and six "
    "bones, and more than half of them are in the hands and the feet. A child "
    "has more bones than its father, for some of them grow together.",
    "Gold does not rust. Iron rusts, and copper turns green. Silver turns black. "
    "Lead is heavy and soft, and tin is light. Mercury is a metal, but it is "
    "wet. Diamond and the black of the pencil are made of the same stuff, but in "
    "the diamond each atom holds the hands of four others.",
    "All things are made of atoms. There are about a hundred kinds of them. An "
    "atom is so small that there are more atoms in a drop of water than grains "
    "of sand on all the beaches. In the middle of the atom is a heavy core, and "
    "around it is a light cloud. Most of an atom is nothing at all.",
    "Heat is the motion of small things. When a thing gets cold, its atoms move "
    "less. There is a cold that is colder than all others, where the motion "
    "ends, and nothing can get below it. But there is no end of heat that we "
    "know.",
    "A stone and a feather fall at the same speed, when there is no air. On the "
    "Moon there is no air, and there somebody tried it. What falls gets faster "
    "and faster: in the first second it falls five metres, in the next second "
    "fifteen, and then twenty five.",
    "A lever lifts what the arm cannot lift. The longer the lever, the lighter "
    "the load, but the longer is the way. You cannot win work: what you save in "
    "strength, you pay in way. The same is true of the screw, of the wheel and "
    "of the slope.",
    "The wheel is older than the written word in some lands, and younger in "
    "others. The first words were written on wet clay, and they were about grain "
    "and sheep. Paper came from the east. Before there was printing, a book was "
    "the work of a year. After there was printing, a book was the work of a day.",
    "Numbers are older than words on clay. Nothing was made a number late, and "
    "it was a great day when it was: with a sign for nothing, ten signs are "
    "enough to write all numbers. A number that no other number divides is a "
    "prime. Two is the first of them, and the only one that is even. There is no "
    "last prime: if you had them all, you could multiply them and add one, and "
    "the result would be divided by none of them.",
    "In each triangle the three angles make half a turn. When one of them is a "
    "quarter of a turn, the square on the long side is as large as the squares "
    "on the two short sides together. Three, four and five make such a triangle, "
    "and so do five, twelve and thirteen.",
    "The way around a circle is a little more than three times the way across. "
    "How much more cannot be written down to the end: the digits go on and on, "
    "and nobody has found an order in them.",
    "If you add one and a half and a quarter and an eighth, and so on without "
    "end, you get two. If you add one and a half and a third and a fourth, and "
    "so on without end, you get more than any number you can name, but it takes "
    "its time.",
    "The slope of a hill tells how fast you rise when you walk. The slope of a "
    "sum is the sum of the slopes. The slope of a product is the first times the "
    "slope of the second, and the second times the slope of the first. And when "
    "one thing depends on another, and that one on a third, the slopes are "
    "multiplied. That is the chain rule, and a machine that learns needs not "
    "much more.",
    "A machine that learns makes a guess, looks how wrong it was, and asks for "
    "each of its numbers: if you were a little larger, would I be less wrong? "
    "That is what the slope tells. Then it moves each number a little way "
    "downhill, and makes the next guess. To go backward through the chain is "
    "cheaper than to go forward for each number alone, and so the wise machine "
    "goes backward.",
    "What it has seen on the way forward, it needs on the way back. It can keep "
    "it, and that takes room. Or it can make it again, and that takes time. What "
    "is cheap to make is made again, and what is dear to make is kept. So the "
    "machine gets along with less room and is not slower.",
    "A good tool is sharp, simple and close at hand. A good book is short where "
    "it can be and long where it must be. A good friend tells you when you are "
    "wrong. A good question is worth more than a quick answer, and a quick "
    "answer is worth more than none.",
    "The morning star and the evening star are the same: both are Venus. The day "
    "on Venus is longer than its year. The day on Jupiter takes ten hours. The "
    "day on the Earth gets longer, but slowly: in a hundred years it grows by "
    "less than two thousandths of a second, because the Moon and the tides hold "
    "it back.",
    "The Sun burns without a fire. Deep inside, small atoms become larger ones, "
    "and a little of their weight becomes light. It takes the light a very long "
    "time to find the way out, and then eight minutes to find the way to us. The "
    "Sun is in the middle of its life. It has shone for nearly five thousand "
    "million years, and it will shine for about as long again.",
    "When a large star dies, it throws its shell into the dark, and from the "
    "dust of such shells come new stars and their planets. The iron in the blood "
    "and the gold in the ring were made in stars that were gone before the Sun "
    "was there.",
    "The sound is slower than the light. When you see the flash and count to "
    "three before you hear the thunder, the storm is one kilometre away. In "
    "water the sound is four times as fast as in air, and in iron it is faster "
    "still. In the space between the stars there is no sound at all.",
    "The north of the needle points to the north, because the Earth is a magnet. "
    "Deep below us there is iron that flows, and it makes the magnet. From time "
    "to time the north and the south change their places, and old stones "
    "remember where the north was when they were young.",
    "The mountains grow, and the rain takes them down. The lands swim on the hot "
    "stone below, as fast as the nail grows on the finger. Long ago all the "
    "lands were one. Where two of them meet, there are mountains. Where two of "
    "them part, there is a sea.",
    NULL};
