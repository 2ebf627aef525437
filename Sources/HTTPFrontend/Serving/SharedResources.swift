internal import ClusterService

/// The resources that all ports of a node share: the service, the authentication with the console's
/// sessions, and the bounded memory for request bodies.
struct SharedResources: Sendable {
    let service: AdministrationService
    let authentication: Authentication
    let machine: Machine
    let bodies = BodyMemory()
    let latencies = RequestLatencies()

    init(service: AdministrationService) {
        self.service = service
        authentication = Authentication(service: service, sessions: SessionTable())
        let machine = Machine(directory: service.cluster.settings.directory)
        self.machine = machine
        service.statistics.readMachine { [weak service] in
            machine.reading(nowMilliseconds: service?.cluster.wallMilliseconds ?? 0)
        }
    }
}
