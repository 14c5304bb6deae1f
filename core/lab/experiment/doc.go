// Package experiment is the engine of all experiments. An [Engine] makes one run of a configuration,
// several, a sweep of many, or a test of a pair, on this host or on others, and keeps the results. Studies
// are its users, and so is the command.
//
// The engine knows a transport's plugin as a [Plugin]: what it says of itself, and what starts its ranks. Its
// user finds plugins. Package runner makes the single run, package sweep plans and orders many, and
// [runner.Expected] has the time that each takes.
package experiment
