// Package model has the shapes of language models: what a token takes in their caches of keys and
// values.
package model
