// Command transport-copyrpc is the plugin of the copyrpc transport.
package main
