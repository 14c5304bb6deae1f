// Command man writes the manual pages of transportbench into a directory, one for each of its
// commands. It is a program of its own so that the command does not link the generator.
package main
