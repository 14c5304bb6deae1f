// Package clock tells the time for measurements within one process.
package clock
