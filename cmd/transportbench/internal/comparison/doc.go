// Package comparison has the flags that compare two sides, and shows the comparison: of diff, and
// of ab.
package comparison
