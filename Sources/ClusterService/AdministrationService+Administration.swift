internal import Bytes
package import Orchestration
internal import Seams
internal import Vocabulary

/// The result of a request about the cluster.
package enum ClusterFormOutcome: Sendable {
    case done
    case refused([FieldError])
    /// The settings were changed meanwhile: the request must be checked again.
    case overtaken
    /// A sentence for the user.
    case failed(String)
}

/// The health of a node: the dot in a console.
package enum NodeStatus: String, Sendable {
    /// Every bucket serves everything.
    case healthy
    /// A bucket is still being read from disk.
    case warmup
    /// A bucket does not serve.
    case unhealthy
}

extension AdministrationService {
    // MARK: Provisioning

    /// Checks the form for a new cluster.
    package func validateInitialisation(_ parameters: FormParameters) -> ClusterForm {
        let state = state
        var form = ClusterForm(parameters, state: state)
        guard !state.isProvisioned else {
            form.refuse("_", "The cluster is initialized already")
            return form
        }
        form.validateAdministrator(port: adminPort)
        form.validateServices()
        form.validateQuotas(memoryTotal: settings.memoryTotal)
        form.validateName()
        form.validateUnbuilt()
        return form
    }

    /// Sets everything that a new cluster needs at once; if a field is wrong, nothing is set.
    package func initialise(_ parameters: FormParameters) async -> ClusterFormOutcome {
        let form = validateInitialisation(parameters)
        guard form.errors.isEmpty, let user = form.user, let password = form.password else {
            return .refused(form.errors)
        }
        guard var birth = await initialisation(user: user, password: password) else {
            return Self.stopping
        }
        birth.memoryQuota = form.memoryQuota
        birth.name = form.name
        return await carryBirth(birth)
    }

    /// Makes a new node a cluster before it listens; logs that it does not if the node has a cluster
    /// already, or was invited by one.
    ///
    /// - Returns: Why that failed, as a sentence for an operator; nil if it did not.
    package func provision(administrator name: String, password: String) async -> String? {
        guard !state.isProvisioned, isAlone else {
            let text =
                "--administrator and --password-file are ignored: the node has a cluster already."
            logEvent(.info, .node, text)
            return nil
        }
        let form = FormParameters([("port", "SAME"), ("username", name), ("password", password)])
        switch await initialise(form) {
        case .done: return nil
        case .refused(let errors):
            let texts = errors.map { error in
                let flag = error.field == "username" ? "--administrator" : "--password-file"
                return "\(flag): \(error.text)"
            }
            return texts.joined(separator: "; ")
        case .overtaken: return "The cluster's state was changed meanwhile. Start the node again."
        case .failed(let text): return text
        }
    }

    /// Checks the form for the administrator.
    package func validateAdministrator(_ parameters: FormParameters) -> ClusterForm {
        var form = ClusterForm(parameters, state: state)
        form.validateAdministrator(port: adminPort)
        return form
    }

    /// Sets the administrator; the first time this ends access without a password.
    ///
    /// - Parameters:
    ///   - parameters: The form.
    ///   - isFirst: Whether the request was admitted without a password because there was no
    ///     administrator. The log refuses it if there is one by then.
    ///   - login: The administrator or local user that orders it.
    /// - Returns: The result.
    package func setAdministrator(
        _ parameters: FormParameters,
        isFirst: Bool,
        by login: String
    ) async -> ClusterFormOutcome {
        let form = validateAdministrator(parameters)
        guard form.errors.isEmpty, let user = form.user, let password = form.password else {
            return .refused(form.errors)
        }
        if isFirst {
            guard let birth = await initialisation(user: user, password: password) else {
                return Self.stopping
            }
            return await carryBirth(birth)
        }
        return await replaceAdministrator(user, password, by: login)
    }

    private func carryBirth(_ birth: Initialisation) async -> ClusterFormOutcome {
        let outcome = await carry([.initialise(birth)], logging: "The cluster was initialized.")
        await awaitInitToken()
        return outcome
    }

    /// Sets those of memory quota and name that are given.
    package func change(_ parameters: FormParameters) async -> ClusterFormOutcome {
        let form = validateChange(parameters)
        guard form.errors.isEmpty else { return .refused(form.errors) }
        var commands: [ClusterCommand] = []
        if let quota = form.memoryQuota { commands.append(.setMemoryQuota(quota)) }
        if let name = form.name { commands.append(.setName(name)) }
        return await carry(commands, logging: "The cluster's settings were changed.")
    }

    /// Checks the form for the cluster's name and quotas.
    package func validateChange(_ parameters: FormParameters) -> ClusterForm {
        var form = ClusterForm(parameters, state: state)
        form.validateQuotas(memoryTotal: settings.memoryTotal)
        form.validateName()
        if !ClusterForm.settingsFields.contains(where: { parameters[$0] != nil }) {
            form.refuse("_", "At least one quota or the cluster's name is needed")
        }
        return form
    }

    /// Sets `settings`, unless they were changed since the caller read `was`.
    package func change(
        settings: ClusterSettings,
        was: ClusterSettings
    ) async -> ClusterFormOutcome {
        await carry(
            [.setSettings(settings, was: was)],
            logging: "The cluster's settings were changed."
        )
    }

    /// Sets how indexes are updated, built and compacted, unless that was changed since the caller
    /// read `was`.
    package func change(
        indexing: IndexingSettings,
        was: IndexingSettings
    ) async -> ClusterFormOutcome {
        await carry(
            [.setIndexing(IndexingChange(indexing, was: was))],
            logging: "The settings of indexes were changed."
        )
    }

    package func resetAutoFailoverCount() async -> ClusterFormOutcome {
        await carry(
            [.resetAutoFailoverCount],
            logging: "The count of automatic failovers was reset."
        )
    }

    package func change(maxBucketCount: UInt32) async -> ClusterFormOutcome {
        let was = state.settings
        var settings = was
        settings.maxBucketCount = maxBucketCount
        return await carry(
            [.setSettings(settings, was: was)],
            logging: "The limit is now \(Words.count(Int(maxBucketCount), "bucket"))."
        )
    }

    /// Changes the administrator's password, and keeps its name.
    package func changeAdministratorPassword(
        _ parameters: FormParameters
    ) async -> ClusterFormOutcome {
        guard let name = state.administrator?.name else {
            return .refused([FieldError("_", ClusterRefusal.notInitialised.sentence)])
        }
        let password = parameters["password"] ?? ""
        if let flaw = ClusterForm.flaw(ofPassword: password) {
            return .refused([FieldError("password", flaw)])
        }
        return await replaceAdministrator(name, password, by: name)
    }

    private func replaceAdministrator(
        _ user: String,
        _ password: String,
        by login: String
    ) async -> ClusterFormOutcome {
        guard let stored = await credentials(of: password) else {
            return Self.stopping
        }
        return await carry(
            [.setAdministrator(Administrator(name: user, credentials: stored))],
            by: login
        )
    }

    /// Nil if the node is stopping.
    private func initialisation(user: String, password: String) async -> Initialisation? {
        guard let stored = await credentials(of: password) else { return nil }
        return Initialisation(
            uuid: environment.entropy.hex(16),
            groupID: member.identity.groupID,
            administrator: Administrator(name: user, credentials: stored)
        )
    }

    /// Proposes commands.
    ///
    /// - Parameters:
    ///   - commands: In this order; those after a refused one are left out.
    ///   - login: The administrator or local user that orders them.
    ///   - conflicts: The refusals after which the request must be checked again.
    ///   - text: The event if all are applied.
    /// - Returns: The result.
    func carry(
        _ commands: [ClusterCommand],
        by login: String? = nil,
        overtakenBy conflicts: Set<ClusterRefusal> = [
            .changedMeanwhile, .memoryQuotaExceeded, .nodeTooSmall,
        ],
        logging text: String? = nil
    ) async -> ClusterFormOutcome {
        for command in commands {
            do {
                switch try await propose(command, by: login) {
                case .refused(let refusal) where conflicts.contains(refusal): return .overtaken
                case .refused(.alreadyInitialised):
                    return .refused([FieldError("_", "The cluster is initialized already")])
                case .refused(let refusal): return .refused([FieldError("_", refusal.sentence)])
                case .done, .failed: break
                }
            } catch {
                return .failed("The cluster's state could not be changed: \(error)")
            }
        }
        if let text, !commands.isEmpty { logEvent(.info, .settings, text) }
        return .done
    }

    // MARK: Health

    /// Random hexadecimal digits for sessions and tokens, two for each byte.
    package func token(bytes: Int) -> String { environment.entropy.hex(bytes) }

    /// The worst of its buckets' states.
    package var nodeStatus: NodeStatus {
        let state = state
        // A node that waits for a rebalance has no bucket open, and is healthy.
        guard state.node(number: thisNode)?.membership == .active else { return .healthy }
        let statuses = state.buckets.map { status(ofBucket: $0.settings.name) }
        let isUnfollowed = core.withLock { $0.unfollowed != nil }
        if statuses.contains(.unhealthy) || isUnfollowed { return .unhealthy }
        return statuses.contains(.warmup) ? .warmup : .healthy
    }

    /// The state of one bucket on this node.
    package func status(ofBucket name: String) -> NodeStatus {
        switch dataPlane.status(ofBucket: name) {
        case .ready: .healthy
        case .warmingUp: .warmup
        case .failed, nil: .unhealthy
        }
    }

    package var adminPort: UInt16 { state.node(number: thisNode)?.ports.admin ?? 0 }

    /// The file system that holds the data, in bytes; nil if the disk does not report it.
    package var diskSpace: (free: UInt64, total: UInt64)? {
        do {
            return try environment.disk.space(settings.directory)
        } catch {
            return nil
        }
    }
}
