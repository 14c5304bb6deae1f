// Package cli is the command line: it puts the subcommands together and has those that tell of
// plugins, profiles, the machine and the version.
package cli
