// Package trial counts how often a comparison of two sets errs, and how often it finds a change:
// over all pairs of sets that were measured without a change between them.
//
// The sets of a pair are compared as they are, so that every verdict is false. Then they are
// compared with each transport slowed down in the newer one: its times are multiplied and its rates
// divided, which is a change of exactly that size in a set of the machine. Pairs share sets, so
// they are not independent, and a binomial interval would be too narrow. The standard error is that
// of the jackknife over sets (Efron and Stein, The jackknife estimate of variance, 1981).
package trial
