// Package letters marks values that cannot be told apart with a letter in common.
package letters
