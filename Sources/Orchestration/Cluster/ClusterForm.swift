internal import Vocabulary

/// Validates a form of cluster settings: administrator, services, memory, name.
///
/// - The errors are in the order of the form; an accepted form has none.
package struct ClusterForm {
    /// Couchbase's default password policy.
    package static let passwordCharactersMin = 6

    package private(set) var user: String?
    package private(set) var password: String?
    /// Bytes on each node.
    package private(set) var memoryQuota: UInt64?
    package private(set) var name: String?
    package private(set) var errors: [FieldError] = []

    private let parameters: FormParameters
    private let state: ClusterState

    package init(_ parameters: FormParameters, state: ClusterState) {
        self.parameters = parameters
        self.state = state
    }

    /// The fields of the cluster's name and memory.
    package static let settingsFields =
        ["memoryQuota", "clusterName"] + UnbuiltSetting.quotas.map(\.field)
    /// The fields of the administrator.
    package static let administratorFields = ["port", "username", "password"]
    /// All fields of a new cluster, without those of its node.
    package static let initialisationFields =
        administratorFields + ["services", "sendStats"] + settingsFields
        + UnbuiltSetting.ofClusters.map(\.field)

    /// Refuses what asks for features of a cluster that are not built.
    package mutating func validateUnbuilt() {
        errors += UnbuiltSetting.flaws(of: parameters, UnbuiltSetting.ofClusters)
    }

    // MARK: Administrator

    /// Validates user name, password and port.
    ///
    /// - Parameter port: The open admin port, which cannot change while the server runs.
    package mutating func validateAdministrator(port: UInt16) {
        validate(port: port)
        if let user = parameters["username"] {
            if let flaw = Self.flaw(ofUser: user) {
                refuse("username", flaw)
            } else if state.user(user) != nil {
                refuse("username", "A local user has this name. Choose another one, or delete it")
            } else {
                self.user = user
            }
        } else {
            refuse("username", "The administrator needs a name")
        }
        if let password = parameters["password"] {
            if let flaw = Self.flaw(ofPassword: password) {
                refuse("password", flaw)
            } else {
                self.password = password
            }
        } else {
            refuse("password", "The administrator needs a password")
        }
    }

    private mutating func validate(port: UInt16) {
        guard let text = parameters["port"] else {
            return refuse("port", "The port is needed, or the word SAME")
        }
        if text == "SAME" { return }
        guard let number = FormParameters.number(text), (1...65_535).contains(number) else {
            return refuse("port", "The port is a number from 1 to 65535, or the word SAME")
        }
        if number != UInt64(port) {
            refuse("port", "The port is \(port) while the server runs; --admin-port sets another")
        }
    }

    private static func flaw(ofUser user: String) -> String? {
        switch ClusterState.flaw(ofUserName: user) {
        case .empty: "The administrator's name cannot be empty"
        case .tooLong:
            "The administrator's name has at most \(Limits.userIDBytesMax) characters"
        case .bannedCharacter:
            "The administrator's name must not contain control characters or "
                + UserNameFlaw.banned
        case nil: nil
        }
    }

    /// The flaw of a text as a password; nil if it can be one.
    package static func flaw(ofPassword password: String) -> String? {
        if password.count < passwordCharactersMin {
            return "The password must be at least \(passwordCharactersMin) characters long."
        }
        return password.unicodeScalars.contains(where: isControl)
            ? "The password must not contain control characters" : nil
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || scalar.value == 0x7f
    }

    // MARK: Services

    /// Refuses every service except the data service: no other one is implemented.
    package mutating func validateServices() {
        guard let text = parameters["services"] else { return }
        let services = text.split(separator: ",", omittingEmptySubsequences: false)
            .map { $0.split(separator: " ").joined(separator: " ") }
        let unknown = services.filter { $0 != "kv" }
        if !unknown.isEmpty {
            let names = unknown.joined(separator: ", ")
            refuse("services", "These services are not available: \(names). There is kv.")
        }
    }

    // MARK: Memory and name

    /// Validates the memory quotas of all services.
    ///
    /// - Parameter memoryTotal: Bytes of memory that the machine or container provides.
    package mutating func validateQuotas(memoryTotal: UInt64) {
        errors += UnbuiltSetting.flaws(of: parameters, UnbuiltSetting.quotas)
        validateMemoryQuota(memoryTotal)
    }

    private mutating func validateMemoryQuota(_ memoryTotal: UInt64) {
        guard let text = parameters["memoryQuota"] else { return }
        guard let quota = FormParameters.number(text), quota < 1 << 40 else {
            return refuse("memoryQuota", "The data service quota is a whole number of MB")
        }
        let flaw = MemoryQuota.flaw(megabytes: quota, memoryTotal: memoryTotal)
        let isTooSmall = if case .tooSmall = flaw { true } else { false }
        guard !isTooSmall, state.allows(memoryQuota: quota << 20) else {
            let least = max(MemoryQuota.megabytesMin, state.bucketQuotas() >> 20)
            return refuse(
                "memoryQuota",
                "The data service quota (\(quota)MB) cannot be less than \(least)MB (current total "
                    + "buckets quota, or at least \(MemoryQuota.megabytesMin)MB)."
            )
        }
        if case .tooLarge(let most, let total) = flaw {
            return refuse(
                "_",
                "The total quota (\(quota)MB) is more than this node can give: at most \(most)MB "
                    + "of its \(total)MB"
            )
        }
        if let node = state.nodeTooSmall(forMemoryQuota: quota << 20) {
            let most = MemoryQuota.megabytesMax(memoryTotal: node.memoryTotal)
            return refuse(
                "_",
                "The total quota (\(quota)MB) is more than node \(node.host):\(node.ports.admin) can "
                    + "give: at most \(most)MB of its \(node.memoryTotal >> 20)MB"
            )
        }
        memoryQuota = quota << 20
    }

    /// Validates the cluster's name.
    package mutating func validateName() {
        guard let name = parameters["clusterName"] else { return }
        if name.utf8.count > 256 {
            refuse("clusterName", "The cluster's name has at most 256 characters")
        } else {
            self.name = name
        }
    }

    /// Adds an error of a field.
    package mutating func refuse(_ field: String, _ text: String) {
        errors.append(FieldError(field, text))
    }
}
