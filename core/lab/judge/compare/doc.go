// Package compare finds what changed between two sets of results, and which value of an option wins
// within one.
//
// Cells are matched by configuration. The repeat is the sample, never the operation. For each
// metric of a pair, repeats are compared within blocks only: within one state of the machine, and
// within consecutive rounds if both sides were measured in the same rounds, as a sweep and ab do.
// The test is van Elteren's stratified rank test as an exact permutation test, the change is the
// weighted median of the ratios within blocks. With one block these are the Mann-Whitney test and
// the Hodges-Lehmann estimate.
//
// # Limits
//
// A change counts only if it is significantly larger than a floor, below which a change does not
// matter. The test is against the floor: if b is a times 1.02, b and the scaled values of a are
// exchangeable, so their rank test calls a true change of exactly 2% in at most alpha of all
// reports. A test against zero, with an estimate beyond the floor, would call it half the time. A
// relative threshold is tested against its limit in the same way, one-sided. The p-values are
// adjusted by Holm over all tests of the report, and those of thresholds over the tests of
// thresholds. An absolute threshold is no test: it compares the new median with its limit.
//
// The interval of each change is at the level at which Holm's adjustment tested it: alpha over the
// number of tests for the smallest p, over one less for the next, and so on up to the first change
// that is not significant, which has its level in common with the rest. So an interval excludes the
// floor exactly where the test rejects; with tied values, the two may differ by a tie. Each is at
// least as wide as one at 1-alpha. They agree with Holm's decisions, but are not simultaneous: the
// chance that all of them cover their true changes may be less than 1-alpha, because those of
// significant changes are at levels that the data chose. Alpha bounds the chance of any false
// BETTER or WORSE.
//
// SAME, too, is a statement about such an interval. It must lie within the smaller of the floor and
// [Options.Same], so that a floor that was raised for a machine that cannot see small changes calls
// none of them SAME.
//
// # Rankings
//
// [Along] tests all pairs of the values of a group and adjusts over all pairs of all groups. A test
// of the others against the best only, which the data chose, errs in 7 to 9% of the rankings of
// five equal values at alpha 0.05. Values that cannot be told apart have a letter in common. The
// leader is better than each other value, so it is alone in its letter.
//
// # States
//
// On a virtual machine, the distance of a run's processors can change from window to window, and
// throughput with it, up to fivefold. If one side drew the near processors more often, a test over
// all its repeats would call that a difference. [state.Find] finds the states from the distances
// around the windows. Given the state, a window is as likely to have any value on one
// side as on the other if nothing differs between the sides, so permuting within a state keeps the
// level of the test however unequally the states were drawn. It also has more power: the jump
// between states is no longer noise.
//
// A window that begins in one state and ends in another is [state.Mixed]. Mixed windows are a block
// of their own instead of being left out: they are rare, nothing is dropped by its result, and they
// are exchangeable with each other. Their block says little because their values differ much, and
// the test knows that, since it uses their own permutations. Windows without readings are another
// block. If a whole side has no readings, as sockets in results of schema 1.x, all its repeats are
// one block, and a note says so. If the sides have no state in common, there is no verdict.
// Disturbed windows ([result.Result.Taken]) are a block of their own, too, by a limit that looks at
// no metric.
//
// # Rounds
//
// Rounds remove the drift of the machine. A block has at least five rounds of a state rather than
// one, because single rounds would make the test a sign test: ten repeats could not get below p =
// 0.002, too much for the 24 tests of the standard comparison, and their power would be two thirds.
// Blocks of five keep the least p at 3e-5 and nearly all of the power, and remove all drift but
// that within five rounds.
//
// # Control
//
// Two sets were measured at different times, and about 90% of the variance between equal sets is a
// movement of the machine that all transports share. Diff takes it from each change, window by
// window, by the other transports under the same load (package control), and then does all of the
// above with what is left. The transports follow a machine only about equally. The standard
// deviation tau of that is estimated from the other transports' residuals, and an interval reaches
// as far as the root of the sum of the squares of its own reach and that of tau. A p-value is the
// level at which such an interval ends at the limit, so intervals and tests agree as without a
// control. If tau is zero, both are those of the rank test.
//
// How a transport follows the machine is much the same under all its loads, so its loads together
// say little more than one about that, but much more about noise. A row for each transport takes
// the windows of all loads as strata of one rank test, and tau from the other transports' rows. The
// rows have half of alpha and the cells the other half: six repeats of eight transports, which
// cannot have a verdict on a cell, find a change of 10% if the transports follow alike.
//
// How far that reaches was counted between ten standard sets of a virtual machine with two
// processors, which moved by 13% between them (median): of 45 pairs, one had a false verdict; a
// transport slower by 10% was found in 22%, by 20% in 61% and by 30% in 80%. Most is lost to the
// scatter of windows within a set: a row has a standard error of 3%, and tau is 1 to 2%. All of
// alpha for the rows would find 10% in 28%, three times the repeats in 46%, and a mean of the loads
// weighted by their errors in 14%; fewer metrics gain nothing. A change of 10% needs ab.
//
// # No verdict
//
// If the machine moved by more than a factor of 1.25, a change has no verdict: transports then
// follow it too differently. It has none either if the other transports have too few windows in its
// rounds and states, so that nothing shows the movement: beside other work, others disturb the
// windows of transports that poll, but never those of one that sleeps. Without this rule, 31 of 60
// pairs of a quiet and a busy set had a false verdict, all on such cells.
//
// A side with several repeats of a process start has no verdict, because the luck of a start moves
// all of its repeats together. A change of a latency that is smaller than a step of the clock has
// none either.
//
// Benjamini-Hochberg would only bound the share of false alarms among alarms; a gate must bound the
// chance of any.
package compare
