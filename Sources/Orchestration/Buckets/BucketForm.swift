package import Vocabulary

/// Validates the form of a new or changed bucket: yields its settings, or errors field by field.
///
/// Every field is checked even if an earlier one is wrong, so that a form shows all its errors at
/// once. Unknown parameters are ignored: old and new tools send many. Those whose feature is not built
/// are refused unless they have the default (`UnbuiltSetting`).
package struct BucketForm {
    /// The context that the form is checked against.
    package struct Ground: Sendable {
        package var state: ClusterState
        /// The bucket to be changed; nil for a new one.
        package var existing: BucketRecord?
        /// The UUID that a new bucket gets.
        package var uuid: String
        /// The stored keys of the form's `saslPassword`; empty if the form is only checked.
        package var password: [UInt8]

        package init(
            state: ClusterState,
            existing: BucketRecord?,
            uuid: String,
            password: [UInt8] = []
        ) {
            self.state = state
            self.existing = existing
            self.uuid = uuid
            self.password = password
        }
    }

    /// The settings to propose, or the errors to show.
    package enum Decision: Hashable, Sendable {
        case accepted(BucketSettings, BucketOptions)
        /// In the order of the form; never empty.
        case refused([FieldError])
    }

    /// Checks all fields.
    package static func validate(_ parameters: FormParameters, on ground: Ground) -> Decision {
        var form = BucketForm(parameters, ground)
        form.validateName()
        form.validateType()
        form.validateQuota()
        form.validateReplicas()
        form.validateEviction()
        form.validateFlags()
        form.validatePassword()
        form.validateVBuckets()
        form.validateDurability()
        form.validateOptions()
        return form.errors.isEmpty
            ? .accepted(form.settings, form.options) : .refused(form.errors)
    }

    let parameters: FormParameters
    let ground: Ground
    var settings: BucketSettings
    var options: BucketOptions
    var errors: [FieldError] = []

    private init(_ parameters: FormParameters, _ ground: Ground) {
        self.parameters = parameters
        self.ground = ground
        settings =
            ground.existing?.settings
            ?? BucketSettings(
                name: parameters[BucketField.name.rawValue] ?? "",
                uuid: ground.uuid,
                quota: 0
            )
        options = ground.existing?.options ?? BucketOptions()
    }

    /// The value of a field; nil if the form does not have it.
    subscript(_ field: BucketField) -> String? { parameters[field.rawValue] }

    var isNew: Bool { ground.existing == nil }

    mutating func refuse(_ field: String, _ text: String) {
        errors.append(FieldError(field, text))
    }

    // MARK: Name and type

    private mutating func validateName() {
        guard isNew else { return }
        guard let name = self[.name] else {
            return refuse("name", "A bucket needs a name")
        }
        if let flaw = Self.flaw(ofName: name) {
            refuse("name", flaw)
        } else if ground.state.hasBucket(like: name) {
            // Clients recognise this error by its text.
            refuse("name", "Bucket with given name already exists")
        }
    }

    /// The error of a bucket's name, for users; nil if the name is valid.
    package static func flaw(ofName name: String) -> String? {
        if name.isEmpty { return "A bucket's name cannot be empty" }
        if name.utf8.count > 100 { return "A bucket's name has at most 100 characters" }
        if name.hasPrefix(".") { return "A bucket's name cannot begin with a dot" }
        let isPlain = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."),
                UInt8(ascii: "%"), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        if !isPlain {
            return "A bucket's name has only the letters A-Z and a-z, digits, and _ . % -"
        }
        let lower = name.lowercased()
        if lower.hasPrefix("_users.couch.") || lower.hasPrefix("_replicator.couch.") {
            return "This name is reserved"
        }
        return nil
    }

    private mutating func validateType() {
        guard let text = self[.bucketType] else { return }
        let type: BucketType
        switch text {
        case "couchbase", "membase": type = .persistent
        case "ephemeral": type = .ephemeral
        case "memcached":
            return refuse("bucketType", "Memcached buckets are not supported; use ephemeral")
        default:
            return refuse("bucketType", "The bucket type is one of couchbase, membase, ephemeral")
        }
        if isNew {
            settings.type = type
        } else if type != settings.type {
            refuse("bucketType", "A bucket's type cannot be changed")
        }
    }

    // MARK: Quota

    private mutating func validateQuota() {
        // The error names `ramQuota`, whichever of the two parameters was sent.
        guard let text = self[.ramQuota] ?? self[.ramQuotaMB] else {
            if isNew { refuse("ramQuota", "The memory quota in MB is needed") }
            return
        }
        guard let megabytes = FormParameters.number(text), megabytes < 1 << 40 else {
            return refuse("ramQuota", "The memory quota is a whole number of MB")
        }
        let quota = megabytes << 20
        let smallest = Limits.bucketQuotaMin
        guard quota >= smallest else {
            return refuse("ramQuota", "The memory quota cannot be less than \(smallest >> 20) MB")
        }
        guard ground.state.allows(bucketQuota: quota, for: ground.existing) else {
            let free = ground.state.freeQuota(except: ground.existing?.settings.name)
            return refuse(
                "ramQuota",
                "The memory quota of \(megabytes) MB does not fit: of the data service's "
                    + "\(ground.state.memoryQuota >> 20) MB on each node, \(free >> 20) MB are free"
            )
        }
        settings.quota = quota
    }
}
