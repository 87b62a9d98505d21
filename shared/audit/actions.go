package audit

// Action is what a change does, as resource.verb (contract 3.3).
type Action string

// The actions. Every operation that changes something declares one of them.
const (
	AccountCreate    Action = "account.create"
	AccountKeyCreate Action = "account-key.create"
	BucketCreate     Action = "key-bucket.create"
	BucketUpdate     Action = "key-bucket.update"
	BucketDelete     Action = "key-bucket.delete"
	ConsumerCreate   Action = "consumer.create"
	ConsumerUpdate   Action = "consumer.update"
	ConsumerDelete   Action = "consumer.delete"
	ConsumerRollKey  Action = "consumer.roll-key"
	KeyCreate        Action = "api-key.create"
	KeyBulkCreate    Action = "api-key.bulk-create"
	KeyUpdate        Action = "api-key.update"
	KeyDelete        Action = "api-key.delete"
	ManagerCreate    Action = "manager.create"
	ManagerDelete    Action = "manager.delete"
	ProjectCreate    Action = "project.create"
	VariableCreate   Action = "variable.create"
	VariableUpdate   Action = "variable.update"
	SourceCreate     Action = "source.create"
	DeploymentDeploy Action = "deployment.redeploy"
	DeploymentDelete Action = "deployment.delete"
)
