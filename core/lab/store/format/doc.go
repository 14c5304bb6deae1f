// Package format formats figures for display: three significant digits in a fitting unit.
package format
