// Package runner drives one benchmark over ranks that it reaches through
// [rank.Control]: it places the polling threads, takes the ranks through
// setup, warm-up and repeats, and makes a [result.Result] of what they report.
// It knows neither how a rank is started nor over which link it is asked; a
// [Launcher] does.
//
// Every call of a rank has a deadline. A rank that does not answer ends the
// run with an error that names it, and on every path all ranks have been
// killed when [Run] returns.
package runner
