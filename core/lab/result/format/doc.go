// Package format writes figures for people, the same way wherever they are
// shown: three significant digits in the unit that fits.
package format
