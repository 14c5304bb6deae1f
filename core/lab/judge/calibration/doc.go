// Package calibration reads and judges what was measured to know the instrument itself on one
// machine: how well it recovers known delays, rates and stalls, what observing costs, the smallest
// delay that it tells from none, how often its comparisons report a difference where there is none,
// and how often they find one of a known size. Package calibrate measures it.
//
// The document keeps the samples of every window, so that everything that it concludes can be
// computed again from the file.
package calibration
