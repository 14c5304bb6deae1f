// Command sources prints a digest of the sources of each transport, by which diff finds those that
// did not change between two versions. scripts/build.sh stamps it into the plugins:
//
//	go list -deps -json ./plugins/... | go run ./core/plugin/sources SETTINGS
//
// The digest is over the settings of the compiler and the packages that the transport imports, but
// not those that all transports import: these are part of what changes for all, as the runtime
// (core.RuntimeDigest) and the machine do. Comments do not count, and of another module only the
// version.
package main
