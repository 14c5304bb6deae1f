// Package clitest runs command lines in tests, with fake runs and with fake plugins, which are the
// test's own binary.
package clitest
