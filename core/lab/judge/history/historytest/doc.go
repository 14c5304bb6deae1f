// Package historytest makes sets of results for tests of histories.
package historytest
