package certificates

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	casPath = "/v1/accounts/{accountName}/client-mtls-ca-certificates"
	caPath  = casPath + "/{id}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:  "certificates",
	Title: "Client mTLS CA certificates",
	Description: "The CAs that sign the certificates of an account's clients: routes with the policy mtls-auth-inbound " +
		"let these clients in.",
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"client-ca", "client-ca-set"},
		Writes: []store.KeyPrefix{"client-ca", "client-ca-fingerprint", "client-ca-name", "client-ca-set", "operation"},
	},
	Operations: []api.AnyOperation{list, create, read, update, remove},
}

var list = api.Operation[listIn, listOut]{
	ID: "ClientMtlsCaCertificatesService_list", Method: http.MethodGet, Path: casPath,
	Summary:     "List client mTLS CA certificates",
	Description: "In the order of their names. Certificates themselves are never shown.",
	Scope:       auth.CACertificates.Read(), Invisible: api.InvisibleOmitted,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.Query},
}

var create = api.Operation[createIn, caOut]{
	ID: "ClientMtlsCaCertificatesService_create", Method: http.MethodPost, Path: casPath, Status: http.StatusCreated,
	Summary: "Create a client mTLS CA certificate",
	Description: "Clients that it signs are let in from 5 seconds later on. It has to be a CA's and valid now. " +
		"An account has at most 100, each of them once. It lets clients into all projects and environments: account keys " +
		"with limits may not make one.",
	Scope: auth.CACertificates.Write(), Invisible: api.Invisible{
		Project:     http.StatusForbidden,
		Environment: http.StatusForbidden,
	},
	Audit: "client-mtls-ca-certificate.create", Resources: []string{"client-mtls-ca-certificate"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.UpdateItem},
}

var read = api.Operation[caIn, caOut]{
	ID: "ClientMtlsCaCertificatesService_read", Method: http.MethodGet, Path: caPath,
	Summary:     "Read a client mTLS CA certificate",
	Description: "What the certificate says. The certificate itself is never shown.",
	Scope:       auth.CACertificates.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem},
}

var update = api.Operation[updateIn, caOut]{
	ID: "ClientMtlsCaCertificatesService_update", Method: http.MethodPatch, Path: caPath,
	Summary:     "Rename a client mTLS CA certificate",
	Description: "Only the name can change.",
	Scope:       auth.CACertificates.Write(), Invisible: api.InvisibleNotFound,
	Audit: "client-mtls-ca-certificate.update", Resources: []string{"client-mtls-ca-certificate"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.DeleteItem},
}

var remove = api.Operation[caIn, api.NoContent]{
	ID: "ClientMtlsCaCertificatesService_delete", Method: http.MethodDelete, Path: caPath, Status: http.StatusNoContent,
	Summary:     "Delete a client mTLS CA certificate",
	Description: "Its clients are refused from 5 seconds later on, on connections that they have open too.",
	Scope:       auth.CACertificates.Write(), Invisible: api.InvisibleNotFound,
	Audit: "client-mtls-ca-certificate.delete", Resources: []string{"client-mtls-ca-certificate"},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.DeleteItem},
}

type listIn struct {
	api.AccountPath
	api.Page
}

type listOut = api.Body[api.List[ca]]

type createIn struct {
	api.AccountPath
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"120" pattern:"^[A-Za-z_$][A-Za-z0-9_$]*$" patternDescription:"letters, digits, _ and $, and no digit first" doc:"A JavaScript identifier, unique in the account." example:"partners"`
		Certificate string `json:"certificate" maxLength:"16384" doc:"The CA's certificate in PEM, without a private key and without other certificates."`
	} `nameHint:"ClientMtlsCaCertificateCreate"`
}

// CAPath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type CAPath struct {
	api.AccountPath
	ID string `path:"id" maxLength:"256" doc:"The certificate's id."`
}

type caIn struct {
	CAPath
}

type updateIn struct {
	CAPath
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"120" pattern:"^[A-Za-z_$][A-Za-z0-9_$]*$" patternDescription:"letters, digits, _ and $, and no digit first" doc:"Its new name, unique in the account."`
	} `nameHint:"ClientMtlsCaCertificateUpdate"`
}

type caOut = api.Body[ca]

type ca struct {
	ID        string `json:"id" doc:"The certificate's id." example:"mtlsca_8dK2mQ0pXv4Zt7Yh1Lc5Rb9W"`
	Name      string `json:"name" doc:"Its name."`
	Info      info   `json:"certificateInfo" doc:"What the certificate says."`
	CreatedOn string `json:"createdOn" format:"date-time" doc:"When it was uploaded."`
	UpdatedOn string `json:"updatedOn" format:"date-time" doc:"When it was last renamed."`
}

type info struct {
	Subject      string `json:"subject" doc:"Whose it is, as RFC 2253 writes names." example:"CN=Partners CA, O=Acme"`
	Issuer       string `json:"issuer" doc:"Who has signed it." example:"CN=Partners CA, O=Acme"`
	ValidFrom    string `json:"validFrom" format:"date-time" doc:"When it begins to be valid."`
	ValidTo      string `json:"validTo" format:"date-time" doc:"When it ends to be."`
	SerialNumber string `json:"serialNumber" doc:"Its serial number in hexadecimal." example:"0F3A"`
}
