// Package listing makes documents of what the command can run: plugins, profiles and plans.
package listing
