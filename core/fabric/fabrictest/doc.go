// Package fabrictest holds what the tests of transports and of their building blocks share: child
// processes ([Start], and [StartEcho] for one that answers calls), the steps of a test with two
// ranks ([Connect], [Pair], [Call], [Next]), the threads and rounds of a benchmark ([PinTwo],
// [Rounds]), the time and the instructions of a call ([Path]), and whether the race detector is on
// ([Race]).
package fabrictest
