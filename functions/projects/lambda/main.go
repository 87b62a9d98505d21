// Command lambda is the function behind the operations of projects. Wiring only:
// what they do is in package projects.
package main

import (
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/cloud"
)

func main() { cloud.Serve(projects.Bind) }
