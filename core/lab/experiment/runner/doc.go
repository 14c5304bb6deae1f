// Package runner drives one benchmark over ranks that it reaches through [record.Control]: it
// places the polling threads, takes the ranks through setup, warm-up and repeats, and makes a
// [result.Result] of their reports. A [Launcher] knows how ranks start and how calls reach them;
// nothing here assumes that they run on this host.
//
// Every call of a rank has a timeout. A rank that does not answer ends the run with an error that
// names it. On every path, [Run] kills all ranks before it returns.
package runner
