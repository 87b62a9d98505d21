// Command lambda is the function that serves the operations of projects. It only starts package projects, which has the
// logic.
package main

import (
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

func main() { cloud.Serve(projects.Bind) }
