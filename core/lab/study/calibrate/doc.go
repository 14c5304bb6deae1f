// Package calibrate measures the instrument itself on one machine: how well it recovers known
// delays, rates and stalls, what observing costs, the smallest delay that it tells from none, how
// often its comparisons report a difference where there is none, and how often they find one of a
// known size.
//
// A calibration is several experiments. Each measures some configurations in interleaved rounds, one
// launch of each per round, as a sweep does. The known quantities come from options of the transport
// "calibration" and from the option burn of a run. The document keeps the samples of every window, so
// that everything that it concludes can be computed again from the file.
package calibrate
