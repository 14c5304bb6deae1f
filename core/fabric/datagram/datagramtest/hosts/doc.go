// Package hosts makes two hosts for tests out of one: network namespaces of their own,
// joined by a wire, whose rate can be limited. Nothing of them outlives the test's
// process, however it ends.
package hosts
