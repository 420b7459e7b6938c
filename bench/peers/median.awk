# SPDX-License-Identifier: BSD-3-Clause
# For reports over the lines of several rounds: sample[key, i] and worked[key, i], i = 1 ... count[key].
function median(key, of, i, j, t, n, v)
{
    n = count[key]
    for (i = 1; i <= n; i++)
        v[i] = of == "busy" ? worked[key, i] : sample[key, i]
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] > v[j]; j--) {
            t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
        }
    return n ? (n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2) : 0
}
function human(bytes)
{
    return bytes >= 1048576 ? bytes / 1048576 " MiB" : bytes >= 1024 ? bytes / 1024 " KiB" : bytes " B"
}
