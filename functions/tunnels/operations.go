package tunnels

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	tunnelsPath       = "/v1/accounts/{accountName}/tunnels"
	tunnelPath        = tunnelsPath + "/{tunnelId}"
	configurationPath = tunnelPath + "/services-configuration"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:  "tunnels",
	Title: "Tunnels",
	Description: "Ways to services that only an account's own machines reach: their tokens, their services, and who " +
		"may call those.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{"operation", "projects", "tunnel", "tunnel-configuration", "tunnel-register"},
		Writes: []store.KeyPrefix{
			"operation", "projects", "tunnel", "tunnel-configuration", "tunnel-register",
			"tunnel-token",
		},
		DryRunReads: []store.KeyPrefix{"tunnel-service"},
	},
	Operations: []api.AnyOperation{
		list, create, read, remove, rotate, teardown, provisioning, readConfiguration,
		configure,
	},
}

var list = api.Operation[listIn, listOut]{
	ID: "TunnelService_list", Method: http.MethodGet, Path: tunnelsPath,
	Summary:     "List tunnels",
	Description: "In the order of their names, without their tokens. An account key with limits sees none.",
	Scope:       auth.Tunnels.Read(), Invisible: api.InvisibleOmitted,
	Errors: []int{http.StatusNotFound},
}

var create = api.Operation[createIn, tunnelOut]{
	ID: "TunnelService_create", Method: http.MethodPost, Path: tunnelsPath, Status: http.StatusCreated,
	Summary: "Create a tunnel",
	Description: "Its token is made with it, and shown again by a read. Names of tunnels are unique in the account, " +
		"which has at most 100. Account keys with limits may not make one.",
	Scope: auth.Tunnels.Write(), Invisible: api.InvisibleNotFound,
	Audit: "tunnel.create", Resources: []string{"tunnel"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.RootKey},
}

var read = api.Operation[tunnelIn, tunnelOut]{
	ID: "TunnelService_read", Method: http.MethodGet, Path: tunnelPath,
	Summary:     "Read a tunnel",
	Description: "With its token. One that is being torn down is not found.",
	Scope:       auth.Tunnels.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem, api.RootKey},
}

var remove = api.Operation[tunnelIn, operationOut]{
	ID: "TunnelService_delete", Method: http.MethodDelete, Path: tunnelPath,
	Summary: "Delete a tunnel with its services",
	Description: "Begins an operation that removes its services. From then on the tunnel is not found, its token opens " +
		"nothing, and its name and those of its services are free.",
	Scope: auth.Tunnels.Write(), Invisible: api.InvisibleNotFound,
	Audit: "tunnel.delete", Resources: []string{"tunnel"},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.DeleteItem},
}

var rotate = api.Operation[tunnelIn, tunnelOut]{
	ID: "TunnelService_update", Method: http.MethodPost, Path: tunnelPath + "/$rotate-token",
	Summary:     "Rotate a tunnel's token",
	Description: "Gives the tunnel another token. The one before opens nothing from then on.",
	Scope:       auth.Tunnels.Write(), Invisible: api.InvisibleNotFound,
	Audit: "tunnel.rotate-token", Replaces: true, Resources: []string{"tunnel"},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.DeleteItem, api.RootKey},
}

var teardown = api.Operation[operationIn, operationOut]{
	ID: "TunnelService_getProvisioningStatus", Method: http.MethodGet,
	Path:        tunnelPath + "/teardown-operations/{operationId}",
	Summary:     "Follow the deletion of a tunnel",
	Description: "It can be read for 30 days after its end, when the tunnel is long gone.",
	Scope:       auth.Tunnels.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem},
}

var provisioning = api.Operation[operationIn, operationOut]{
	ID: "TunneledServicesService_getProvisioningStatus", Method: http.MethodGet,
	Path:    tunnelPath + "/provisioning-operations/{operationId}",
	Summary: "Follow the provisioning of a tunnel's services",
	Description: "It ends with an error where another configuration was put before it was done, or the tunnel " +
		"was deleted. " +
		"It can be read for 30 days after its end.",
	Scope: auth.Tunnels.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem},
}

var readConfiguration = api.Operation[tunnelIn, configurationOut]{
	ID: "TunneledServicesService_getServiceConfiguration", Method: http.MethodGet, Path: configurationPath,
	Summary:     "Read the configuration of a tunnel's services",
	Description: "As it was put last; no services before that. A project that was deleted since is no longer in it.",
	Scope:       auth.Tunnels.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.BatchGetItem},
}

var configure = api.Operation[configureIn, operationOut]{
	ID: "TunneledServicesService_putServiceConfiguration", Method: http.MethodPut, Path: configurationPath,
	Summary: "Configure a tunnel's services",
	Description: "Replaces the whole configuration: the operation creates, updates and deletes services until they are " +
		"as it says, and touches no others. " +
		"Names of services are unique in the account, and are claimed at once: one that another tunnel has is a 409. " +
		"The names of services that are left out are free at once. " +
		"Where nothing differs, it answers the operation that is under way, or one that has ended already.",
	Scope: auth.Tunnels.Write(), Invisible: api.InvisibleNotFound,
	Audit: "tunnel-services.update", Resources: []string{"tunnel"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.BatchGetItem, api.PutItem, api.CheckItem},
}

type listIn struct {
	api.AccountPath
	api.Page
}

type listOut = api.Body[api.List[listed]]

type listed struct {
	ID   string `json:"id" doc:"The tunnel's id." example:"tnl_4s8lzKeMwbI3pT6qXhV0Yd2R"`
	Name string `json:"name" doc:"The tunnel's name." example:"office"`
}

type createIn struct {
	api.AccountPath
	Body struct {
		Name string `json:"name" pattern:"^[a-zA-Z0-9-]{3,24}$" patternDescription:"3 to 24 letters, digits and hyphens" doc:"The tunnel's name, unique in the account." example:"office"`
	} `nameHint:"TunnelCreate"`
}

// TunnelPath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type TunnelPath struct {
	api.AccountPath
	TunnelID string `path:"tunnelId" maxLength:"256" doc:"The tunnel's id."`
}

type tunnelIn struct {
	TunnelPath
}

type tunnelOut = api.Body[tunnel]

type tunnel struct {
	TunnelID string `json:"tunnelId" doc:"The tunnel's id." example:"tnl_4s8lzKeMwbI3pT6qXhV0Yd2R"`
	Name     string `json:"name" doc:"The tunnel's name." example:"office"`
	Token    string `json:"token" format:"password" doc:"What proves that somebody may serve the tunnel. It is a secret."`
}

type operationIn struct {
	TunnelPath
	OperationID string `path:"operationId" maxLength:"256" doc:"The operation's id."`
}

type operationOut = api.Body[operation]

type operation struct {
	ID      string `json:"id" doc:"Under which the operation is followed." example:"pst_4s8lzKeMwbI3pT6qXhV0Yd2R"`
	Status  string `json:"status" enum:"in-progress,success,error" doc:"How it goes. The last two are final."`
	Message string `json:"message" doc:"The same in a sentence."`
	Details string `json:"details,omitempty" doc:"Where it has stopped, of one that has failed."`
}

type configurationOut = api.Body[configuration]

type configuration struct {
	Version  int       `json:"version" enum:"1" doc:"The version of this format."`
	Services []service `json:"services" nullable:"false" maxItems:"100" doc:"The services behind the tunnel."`
}

type service struct {
	Name           string   `json:"name" doc:"What the service is called by." example:"stock"`
	Endpoint       string   `json:"endpoint" doc:"Where it is in your network." example:"http://localhost:8080"`
	Configurations []access `json:"configurations" nullable:"false" maxItems:"50" doc:"Who may call it: nobody that is in none of them."`
}

type access struct {
	Project      string   `json:"project" doc:"A project of the account." example:"lime-fox"`
	AccessibleBy []string `json:"accessibleBy" nullable:"false" maxItems:"3" enum:"working-copy,preview,production" doc:"Which of its environments, by their kinds."`
}

type configureIn struct {
	TunnelPath
	Body struct {
		Version  int          `json:"version" enum:"1" doc:"The version of this format."`
		Services []putService `json:"services" nullable:"false" maxItems:"100" doc:"All services behind the tunnel."`
	} `nameHint:"TunnelConfigure"`
}

type putService struct {
	Name           string      `json:"name" pattern:"^[a-zA-Z0-9-]{3,24}$" patternDescription:"3 to 24 letters, digits and hyphens" doc:"What the service is called by, unique in the account; capitals count." example:"stock"`
	Endpoint       string      `json:"endpoint" minLength:"1" maxLength:"2048" doc:"Where it is in your network: an http or https URL without user, query and fragment." example:"http://localhost:8080"`
	Configurations []putAccess `json:"configurations" nullable:"false" maxItems:"50" doc:"Who may call it: nobody that is in none of them."`
}

type putAccess struct {
	Project      string   `json:"project" minLength:"1" maxLength:"63" doc:"A project of the account, once." example:"lime-fox"`
	AccessibleBy []string `json:"accessibleBy" nullable:"false" maxItems:"3" enum:"working-copy,preview,production" doc:"Which of its environments, by their kinds."`
}
