// Package core identifies the runtime of a binary: its version, its revision and a digest of
// the measured code.
//
// The packages below it are grouped by their part in a benchmark:
//
//   - transport and transporttest: the contract that a transport implements, and its tests
//   - runtime: the measured loop, which every plugin links
//   - base: configuration, machine and records, which the host and the ranks share
//   - fabric: building blocks for transports
//   - lab: the parts that run on the host or offline
//   - plugin: the boundary between the host and a plugin's process
package core
