// Package enter starts plugins in a network namespace. The process that enters it becomes the
// plugin, so its standard error is the plugin's, which the host reads.
package enter
