package mtlscertificates

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	certificatesPath = "/v1/accounts/{accountName}/projects/{projectName}/mtls-certificates"
	certificatePath  = certificatesPath + "/{mtlsCertificateId}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "mtlscertificates",
	Title:       "mTLS certificates",
	Description: "Client certificates of a project, which its handlers show to upstreams that demand one.",
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"deployment", "environments", "mtls-certificate", "projects"},
		Writes: []store.KeyPrefix{"mtls-certificate", "mtls-certificate-count", "mtls-certificate-name", "projects"},
	},
	Operations: []api.AnyOperation{list, create, read, update, remove},
}

var list = api.Operation[listIn, listOut]{
	ID: "MtlsCertificatesService_list", Method: http.MethodGet, Path: certificatesPath,
	Summary:     "List mTLS certificates",
	Description: "In the order of their names, those that the account key sees: all whose environments are among its own.",
	Scope:       auth.Projects.Read(), Invisible: api.Invisible{Project: http.StatusNotFound, Environment: http.StatusOK},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.Query, api.GetItem},
}

var create = api.Operation[createIn, certificateOut]{
	ID: "MtlsCertificatesService_create", Method: http.MethodPost, Path: certificatesPath, Status: http.StatusCreated,
	Summary: "Create an mTLS certificate",
	Description: "Handlers name it in their option mtlsCertificate. The private key is sealed and never shown. A " +
		"project has at most 50. " +
		"A certificate is never replaced: upload its successor under another name, deploy with that, and delete it.",
	Scope:     auth.Projects.Write(),
	Invisible: api.Invisible{Project: http.StatusNotFound, Environment: http.StatusForbidden},
	Audit:     "mtls-certificate.create", Resources: []string{"mtls-certificate"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.CheckItem, api.PutItem, api.UpdateItem, api.RootKey},
}

var read = api.Operation[certificateIn, certificateOut]{
	ID: "MtlsCertificatesService_read", Method: http.MethodGet, Path: certificatePath,
	Summary:     "Read an mTLS certificate",
	Description: "What the certificate says and where it is enabled. Its private key is never shown.",
	Scope:       auth.Projects.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem},
}

var update = api.Operation[updateIn, certificateOut]{
	ID: "MtlsCertificatesService_update", Method: http.MethodPatch, Path: certificatePath,
	Summary: "Enable an mTLS certificate for environments",
	Description: "The environments replace those before, none disables it. Builds go by them from now on; what is " +
		"deployed stays as it is. " +
		"Nothing else can change.",
	Scope: auth.Projects.Write(), Invisible: api.InvisibleNotFound,
	Audit: "mtls-certificate.update", Resources: []string{"mtls-certificate"},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem, api.UpdateItem},
}

var remove = api.Operation[certificateIn, api.NoContent]{
	ID: "MtlsCertificatesService_delete", Method: http.MethodDelete, Path: certificatePath, Status: http.StatusNoContent,
	Summary:     "Delete an mTLS certificate",
	Description: "Refused while a deployment is served with it.",
	Scope:       auth.Projects.Write(), Invisible: api.InvisibleNotFound,
	Audit: "mtls-certificate.delete", Resources: []string{"mtls-certificate"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.BatchGetItem, api.Query, api.DeleteItem, api.UpdateItem},
}

type listIn struct {
	api.ProjectPath
	api.Page
}

type listOut = api.Body[api.List[certificate]]

type createIn struct {
	api.ProjectPath
	Body struct {
		Name         string   `json:"name" minLength:"1" maxLength:"120" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" patternDescription:"letters, digits and _, and no digit first" doc:"Unique in the project; handlers name it." example:"warehouse"`
		Certificate  string   `json:"certificate" maxLength:"65536" doc:"The certificate in PEM, with its intermediates behind it if it has any."`
		Key          string   `json:"key" format:"password" maxLength:"16384" doc:"Its private key in PEM: RSA, ECDSA or Ed25519, not encrypted."`
		Environments []string `json:"environments" nullable:"false" minItems:"1" maxItems:"3" enum:"development,preview,production" doc:"The kinds of environment whose builds may use it."`
	} `nameHint:"MtlsCertificateCreate"`
}

// CertificatePath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type CertificatePath struct {
	api.ProjectPath
	MtlsCertificateID string `path:"mtlsCertificateId" maxLength:"256" doc:"The certificate's id."`
}

type certificateIn struct {
	CertificatePath
}

type updateIn struct {
	CertificatePath
	Body struct {
		Environments []string `json:"environments" nullable:"false" maxItems:"3" enum:"development,preview,production" doc:"The kinds of environment whose builds may use it, in place of those before."`
	} `nameHint:"MtlsCertificateUpdate"`
}

type certificateOut = api.Body[certificate]

type certificate struct {
	ID           string       `json:"id" doc:"The certificate's id." example:"cert_8dK2mQ0pXv4Zt7Yh1Lc5Rb9W"`
	Name         string       `json:"name" doc:"Its name."`
	Info         info         `json:"certificateInfo" doc:"What the certificate says."`
	Environments environments `json:"environments" doc:"Whose builds may use it."`
	CreatedOn    string       `json:"createdOn" format:"date-time" doc:"When it was uploaded."`
	UpdatedOn    string       `json:"updatedOn" format:"date-time" doc:"When its environments were last changed."`
}

type info struct {
	Subject      string `json:"subject" doc:"Whose it is, as RFC 2253 writes names." example:"CN=gateway.acme.example, O=Acme"`
	Issuer       string `json:"issuer" doc:"Who has signed it." example:"CN=Warehouse CA, O=Warehouse"`
	ValidFrom    string `json:"validFrom" format:"date-time" doc:"When it begins to be valid."`
	ValidTo      string `json:"validTo" format:"date-time" doc:"When it ends to be."`
	SerialNumber string `json:"serialNumber" doc:"Its serial number in hexadecimal." example:"0F3A"`
}

type environments struct {
	Development bool `json:"development" doc:"Whether it is enabled for working copies."`
	Preview     bool `json:"preview" doc:"Whether it is enabled for previews."`
	Production  bool `json:"production" doc:"Whether it is enabled for production."`
}
