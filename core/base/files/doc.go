// Package files reads and writes the files that users name and the files of results.
//
// Every file that the command writes goes through this package, so that all of them treat special
// files, symbolic links, modes and full disks alike. scripts/check-imports.sh refuses the functions
// of package os that write, make directories or remove.
//
//   - [Write] writes what a flag names, of any kind: a regular file, a pipe, a terminal, a device.
//   - [Replace] writes a file that is read again later, and so must be regular.
//   - [Create] is [Replace] for a file that must not exist yet.
//   - [MakeDir] makes directories.
//
// It also knows which users could change a file ([CheckExposed], [Trusted]).
package files
