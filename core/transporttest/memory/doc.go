// Package memory is a transport between the workers of one process, for tests of the users of a
// transport: [Driver] keeps the contract strictly, [Device] also has payloads in device memory, and
// [Poison] reveals a payload that a user keeps too long. The tests of the package break it in every
// way that a clause of the conformance suite must catch.
package memory
