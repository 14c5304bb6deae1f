// Package cpulist formats and parses lists of processors as the kernel writes them.
package cpulist
