internal import Bytes
package import Orchestration
internal import Seams
internal import Vocabulary

/// The forms of a cluster: its beginning, its administrator, its settings.
package final class SettingsService: Sendable {
    let cluster: Cluster
    private let users: UserService

    init(_ cluster: Cluster, _ users: UserService) { (self.cluster, self.users) = (cluster, users) }

    // MARK: Provisioning

    /// Checks the form for a new cluster.
    package func validateInitialisation(_ parameters: FormParameters) -> ClusterForm {
        let state = cluster.state
        var form = ClusterForm(parameters, state: state)
        guard !state.isProvisioned else {
            form.refuse("_", "The cluster is initialized already")
            return form
        }
        form.validateAdministrator(port: cluster.adminPort)
        form.validateServices()
        form.validateQuotas(memoryTotal: cluster.settings.memoryTotal)
        form.validateName()
        form.validateUnbuilt()
        return form
    }

    /// Sets everything that a new cluster needs at once; if a field is wrong, nothing is set.
    ///
    /// - Throws: `AdministrationError` if it is none then.
    package func initialise(_ parameters: FormParameters) async throws(AdministrationError) {
        let form = validateInitialisation(parameters)
        guard form.errors.isEmpty, let user = form.user, let password = form.password else {
            throw .invalid(form.errors)
        }
        var birth = try await initialisation(user: user, password: password)
        birth.memoryQuota = form.memoryQuota
        birth.name = form.name
        try await carryBirth(birth)
    }

    /// Makes a new node a cluster before it listens; logs that it does not if the node has a cluster
    /// already, or was invited by one.
    ///
    /// - Returns: Why that failed, as a sentence for an operator; nil if it did not.
    package func provision(administrator name: String, password: String) async -> String? {
        guard !cluster.state.isProvisioned, cluster.isAlone else {
            let text =
                "--administrator and --password-file are ignored: the node has a cluster already."
            cluster.logEvent(.info, .node, text)
            return nil
        }
        let form = FormParameters([("port", "SAME"), ("username", name), ("password", password)])
        do throws(AdministrationError) {
            try await initialise(form)
            return nil
        } catch {
            switch error {
            case .invalid(let errors, _):
                let texts = errors.map { error in
                    let flag = error.field == "username" ? "--administrator" : "--password-file"
                    return "\(flag): \(error.text)"
                }
                return texts.joined(separator: "; ")
            case .overtaken:
                return "The cluster's state was changed meanwhile. Start the node again."
            default: return error.description
            }
        }
    }

    /// Checks the form for the administrator.
    package func validateAdministrator(_ parameters: FormParameters) -> ClusterForm {
        var form = ClusterForm(parameters, state: cluster.state)
        form.validateAdministrator(port: cluster.adminPort)
        return form
    }

    /// Sets the administrator; the first time this ends access without a password.
    ///
    /// - Parameters:
    ///   - parameters: The form.
    ///   - isFirst: Whether the request was admitted without a password because there was no
    ///     administrator. The log refuses it if there is one by then.
    ///   - login: The administrator or local user that orders it.
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func setAdministrator(
        _ parameters: FormParameters,
        isFirst: Bool,
        by login: String
    ) async throws(AdministrationError) {
        let form = validateAdministrator(parameters)
        guard form.errors.isEmpty, let user = form.user, let password = form.password else {
            throw .invalid(form.errors)
        }
        if isFirst {
            return try await carryBirth(await initialisation(user: user, password: password))
        }
        try await replaceAdministrator(user, password, by: login)
    }

    private func carryBirth(_ birth: Initialisation) async throws(AdministrationError) {
        let result = await Result(
            of: try await cluster.carry(
                [.initialise(birth)],
                logging: "The cluster was initialized."
            )
        )
        await cluster.awaitInitToken()
        try result.get()
    }

    /// Sets those of memory quota and name that are given.
    ///
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func change(_ parameters: FormParameters) async throws(AdministrationError) {
        let form = validateChange(parameters)
        guard form.errors.isEmpty else { throw .invalid(form.errors) }
        var commands: [ClusterCommand] = []
        if let quota = form.memoryQuota { commands.append(.setMemoryQuota(quota)) }
        if let name = form.name { commands.append(.setName(name)) }
        try await cluster.carry(commands, logging: "The cluster's settings were changed.")
    }

    /// Checks the form for the cluster's name and quotas.
    package func validateChange(_ parameters: FormParameters) -> ClusterForm {
        var form = ClusterForm(parameters, state: cluster.state)
        form.validateQuotas(memoryTotal: cluster.settings.memoryTotal)
        form.validateName()
        if !ClusterForm.settingsFields.contains(where: { parameters[$0] != nil }) {
            form.refuse("_", "At least one quota or the cluster's name is needed")
        }
        return form
    }

    /// Sets `settings`, unless they were changed since the caller read `was`.
    ///
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func change(
        settings: ClusterSettings,
        was: ClusterSettings
    ) async throws(AdministrationError) {
        try await cluster.carry(
            [.setSettings(settings, was: was)],
            logging: "The cluster's settings were changed."
        )
    }

    /// Sets how indexes are updated, built and compacted, unless that was changed since the caller
    /// read `was`.
    ///
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func change(
        indexing: IndexingSettings,
        was: IndexingSettings
    ) async throws(AdministrationError) {
        try await cluster.carry(
            [.setIndexing(IndexingChange(indexing, was: was))],
            logging: "The settings of indexes were changed."
        )
    }

    /// Resets the count of automatic failovers.
    ///
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func resetAutoFailoverCount() async throws(AdministrationError) {
        try await cluster.carry(
            [.resetAutoFailoverCount],
            logging: "The count of automatic failovers was reset."
        )
    }

    /// Sets how many buckets the cluster may have.
    ///
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func change(maxBucketCount: UInt32) async throws(AdministrationError) {
        let was = cluster.state.settings
        var settings = was
        settings.maxBucketCount = maxBucketCount
        try await cluster.carry(
            [.setSettings(settings, was: was)],
            logging: "The limit is now \(Words.count(Int(maxBucketCount), "bucket"))."
        )
    }

    /// Changes the administrator's password, and keeps its name.
    ///
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func changeAdministratorPassword(
        _ parameters: FormParameters
    ) async throws(AdministrationError) {
        guard let name = cluster.state.administrator?.name else {
            throw .invalid([FieldError("_", ClusterRefusal.notInitialised.sentence)])
        }
        let password = parameters["password"] ?? ""
        if let flaw = ClusterForm.flaw(ofPassword: password) {
            throw .invalid([FieldError("password", flaw)])
        }
        try await replaceAdministrator(name, password, by: name)
    }

    private func replaceAdministrator(
        _ user: String,
        _ password: String,
        by login: String
    ) async throws(AdministrationError) {
        guard let stored = await users.credentials(of: password) else { throw .stopping }
        try await cluster.carry(
            [.setAdministrator(Administrator(name: user, credentials: stored))],
            by: login
        )
    }

    private func initialisation(
        user: String,
        password: String
    ) async throws(AdministrationError) -> Initialisation {
        guard let stored = await users.credentials(of: password) else { throw .stopping }
        return Initialisation(
            uuid: cluster.environment.entropy.hex(16),
            groupID: cluster.member.identity.groupID,
            administrator: Administrator(name: user, credentials: stored)
        )
    }
}
