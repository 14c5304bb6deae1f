// Package serve shows the report of one set in a browser while the set grows.
package serve
