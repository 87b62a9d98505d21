package console

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/management/api"
)

const path = "/console"

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "console",
	Title:       "Console",
	Description: "The web page that shows what an installation has.",
	Operations:  []api.AnyOperation{show, asset},
}

var show = api.Operation[showIn, fileOut]{
	ID: "console", Method: http.MethodGet, Path: path,
	Summary: "Show the console",
	Public:  true, Hidden: true,
}

var asset = api.Operation[assetIn, fileOut]{
	ID: "console_file", Method: http.MethodGet, Path: path + "/{file}",
	Summary: "Give a file of the console",
	Public:  true, Hidden: true,
	Errors: []int{http.StatusNotFound},
}

type showIn struct{}

type assetIn struct {
	File           string `path:"file" maxLength:"256" doc:"The file's name, as the page has it."`
	AcceptEncoding string `header:"Accept-Encoding" maxLength:"1024" doc:"Whether br is understood."`
}

// fileOut is a file with the headers that restrict how a browser uses the file.
type fileOut struct {
	ContentType       string `header:"Content-Type"`
	ContentEncoding   string `header:"Content-Encoding"`
	Vary              string `header:"Vary"`
	CacheControl      string `header:"Cache-Control"`
	ContentSecurity   string `header:"Content-Security-Policy"`
	ContentSniffing   string `header:"X-Content-Type-Options"`
	Referrer          string `header:"Referrer-Policy"`
	OpenerPolicy      string `header:"Cross-Origin-Opener-Policy"`
	ResourcePolicy    string `header:"Cross-Origin-Resource-Policy"`
	PermissionsPolicy string `header:"Permissions-Policy"`
	FrameOptions      string `header:"X-Frame-Options"`
	Body              []byte
}
