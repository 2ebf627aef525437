/// The scopes and collections of every bucket: the default ones.
///
/// Gateways of the releases from 3.1 on conclude from the cluster's version that there are collections. They
/// read the manifest before they open a feed, also on a connection that was granted no collections.
enum CollectionsManifest {
    /// The manifest as JSON, with hexadecimal numbers.
    static let json = Array(
        (#"{"uid":"0","scopes":[{"name":"_default","uid":"0","#
            + #""collections":[{"name":"_default","uid":"0"}]}]}"#).utf8
    )
}
