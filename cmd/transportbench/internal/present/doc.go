// Package present renders results, plugins, findings and progress for people:
// tables, human units, one line for each phase.
package present
