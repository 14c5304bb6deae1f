// Package published is figures that others published, as result files of a
// kind of their own: with their source and conditions, which of them come from
// a single run and which contradict themselves. They can be shown beside what
// was measured here and never count as such.
package published
