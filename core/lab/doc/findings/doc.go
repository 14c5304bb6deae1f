// Package findings makes documents of what judges found in results.
package findings
