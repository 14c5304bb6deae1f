// Package calibrate measures a calibration, which package calibration judges.
//
// A calibration is several experiments. Each measures some configurations in interleaved rounds,
// one launch of each per round, as a sweep does. The known quantities come from options of the
// transport "calibration" and from the option burn of a run.
package calibrate
