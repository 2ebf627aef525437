/// What a change requires of the present version of the object that it changes, so that it cannot
/// overwrite a version that its author has not seen.
package enum Precondition<Version: Hashable & Sendable>: Hashable, Sendable {
    /// The change is applied to any version.
    case any
    /// The object does not exist.
    case absent
    /// The object has this version.
    case version(Version)

    /// Whether the present version, nil if the object does not exist, permits the change.
    package func permits(_ present: Version?) -> Bool {
        switch self {
        case .any: true
        case .absent: present == nil
        case .version(let version): present == version
        }
    }
}
