// Package published reads figures that others published. They are files of a kind of their own,
// with their source and conditions, which of them come from a single run, and which contradict each
// other. They are shown beside measured results and never count as such.
package published
