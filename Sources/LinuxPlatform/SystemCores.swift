internal import CLinux

/// The processors that this process may use.
package enum SystemCores {
    package static var count: Int { Int(divan_processors()) }
}
