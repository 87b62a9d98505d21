// Command lambda is the function that serves the operations of mcpdocs. It only starts package mcpdocs, which has the
// logic.
package main

import (
	"os"

	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
	"github.com/gatewright/gatewright/shared/runtime/cloud/bedrock"
)

func main() {
	cloud.Serve(func(p installation.Parts) []api.Route { return mcpdocs.BindWith(p, bedrock.Models(p, os.Getenv)) })
}
