// Package present formats results, plugins, findings and progress for people:
// tables, human units, one line per step.
package present
